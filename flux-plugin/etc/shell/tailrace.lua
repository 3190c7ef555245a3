-- Loads tailrace's plugin into Flux's job shell. For a user without privileges:
--     export FLUX_SHELL_RC_PATH=<this folder>       all jobs submitted from this environment
--     flux submit -o userrc=<this file> ...         one job
-- A shell whose initrc fails kills its job, so a missing plugin is skipped.
local here = debug.getinfo (1, "S").source:match ("^@(.*/)") or "./"
local plugin_file = here .. "../../lib/shell/tailrace-shell.so"
local f = io.open (plugin_file, "r")
if f then
    f:close ()
    -- without-jobtap: where the job manager lacks tailrace-jobtap.so, follow the job's own attributes.
    plugin.load { file = plugin_file, conf = { ["without-jobtap"] = true } }
end
