-- Loads tailrace's plugin into Flux's job shell. For a user without an administrator:
--     export FLUX_SHELL_RC_PATH=<this folder>       all jobs that are submitted from this environment
--     flux submit -o userrc=<this file> ...         one job
-- A shell whose initrc fails kills its job, so a plugin that isn't there is left out.
local here = debug.getinfo (1, "S").source:match ("^@(.*/)") or "./"
local plugin_file = here .. "../../lib/shell/tailrace-shell.so"
local f = io.open (plugin_file, "r")
if f then
    f:close ()
    -- In an instance whose job manager has no tailrace-jobtap.so, what the job asks for itself is done.
    plugin.load { file = plugin_file, conf = { ["without-jobtap"] = true } }
end
