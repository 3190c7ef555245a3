"""What libc exports and is not hooked, with the reason. Every name is a whole regular expression of an export's name.

The first group is of calls that close a descriptor or a stream: each with the reason why its closing can't matter to
the table of descriptors. A descriptor made without a hook and never returned to the program is never in that table.
"""

import re

Group = tuple[str, str]  # the reason, and the names by blanks

CLOSERS: list[Group] = [
    (
        "closes a descriptor of libc's own, that the program never had",
        "endusershell end(alias|fs|gr|host|net|netgr|proto|pw|rpc|serv|sg|sp|tty|ut|utx)ent endnetgrent "
        "__res_nclose res_n?close fts(64)?_close ulckpwdf muntrace",
    ),
    ("closes a file that was mapped, whose descriptor went before the call that opened it came back", r"dlclose"),
    ("closes a file that was mapped, whose descriptor went before the call that opened it came back", r"catclose"),
    ("closes a converter, which has no descriptor", "iconv_close"),
    ("a semaphore is a mapping", "sem_close sem_destroy sem_unlink"),
    (
        "a stream's own functions of libio, for libstdc++ before 3.0: fclose calls them, and that is hooked",
        "_IO_(file|default|wdefault)_(close|close_it|finish) _IO_proc_close _IO_un_link",
    ),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", "svc_exit svc_unregister"),
    ("ends the process, and exit itself settles all", "exit abort"),
    ("puts an action on a list; it is done in a child, before it runs a program", r"posix_spawn_file_actions_\w+"),
    ("moves the process to another root or name space: descriptors stay", "unshare setns pivot_root"),
    ("writes into memory", "inet6_opt_finish"),
]

DESCRIPTORS: list[Group] = [
    (
        "makes a descriptor of a number that was free: the table has no entry for it, and looks at its first use",
        "fsopen fsmount fspick open_tree rcmd(_af)? rexec(_af)? rresvport(_af)?",
    ),
    (
        "queries a descriptor and moves no bytes",
        "fstatv?fs(64)? isatty isastream isfdtype fpathconf ttyname(_r)? __ttyname_r_chk ptsname(_r)? __ptsname_r_chk "
        "getsock(name|opt) getpeername sockatmark tcget(attr|pgrp|sid) gtty mq_getattr timerfd_gettime dirfd telldir",
    ),
    (
        "sets what a descriptor does and moves no bytes",
        "tc(set(attr|pgrp)|drain|flow|flush|sendbreak) stty grantpt unlockpt revoke setsockopt fchflags bindresvport "
        "mq_(setattr|notify) timerfd_settime inotify_(add|rm)_watch fanotify_mark fsconfig mount_setattr "
        "move_mount pidfd_send_signal rewinddir seekdir set(ipv4)?sourcefilter get(ipv4)?sourcefilter fdetach fattach",
    ),
    ("waits, by a name that no header declares", "__poll __select __fdelt_(chk|warn)"),
    ("the state of a request; its result is taken by aio_return", "aio_(cancel|error)(64)? aio_init"),
    ("STREAMS, which Linux doesn't have: they fail", "getp?msg putp?msg"),
    ("a mapping is counted when it is made", r"m(un)?lock(all|2)? remap_file_pages"),
    ("memory, and no file", r"p?madvise posix_madvise"),
    ("memory, and no file", r"process_\w+ pkey_\w+ (shm|msg|sem)(at|ctl|dt|get|rcv|snd|op|timedop)"),
    ("a name of a message queue is no path", "mq_unlink"),
    ("the kernel's own files are read or written by a call of its own", "swapo(n|ff) acct quotactl nfsservctl uselib"),
]

STREAMS: list[Group] = [
    ("a stream over memory or over the program's functions has no descriptor", "fmemopen open_w?memstream fopencookie"),
    (
        "queries a stream and moves no bytes",
        r"(_IO_)?f(eof|error) f(eof|error)_unlocked fileno(_unlocked)? "
        r"(_IO_)?ftell ftello(64)? (_IO_)?fgetpos(64)? fwide "
        r"clearerr(_unlocked)? __f(bufsize|lbf|pending|readable|reading|setlocking|writable|writing) "
        r"(_IO_)?f(try|un)?lock(file|file) _IO_ftrylockfile _IO_funlockfile ftrylockfile funlockfile",
    ),
    (
        "argp_parse, which is hooked, calls them; by themselves they are for parsers of options, inside of that call",
        r"argp_\w+",
    ),
    ("text in memory", r"hasmntopt addseverity clnt_sp\w+"),
    (
        "libc's last words in a program that it ends, which the ledger names; by descriptors of its own; or for "
        "programs that are older than glibc 2.32",
        r"__chk_fail __stack_chk_fail __libc_fatal __backtrace_symbols_fd mtrace clnt_p\w+",
    ),
    (
        "inside of libio, exported for libstdc++ before 3.0; the streams' public functions are hooked",
        r"_IO_\w+ __vfscanf",
    ),
    ("formats in memory", r"(__)?v?(s|sn|as|sw)(printf|scanf)(_chk)?"),
    ("formats in memory", r"__isoc99_v?sw?scanf __(sn|s|as|vs|vsn|vas|sw|vsw)printf_chk"),
    ("formats in memory", r"v?(asprintf|swscanf|sscanf) __v(as|sn|s)printf __v?(as|s|sn)printf"),
    ("formats in memory", r"__vsscanf __asprintf __snprintf"),
    ("formats in memory", r"(__)?obstack_v?printf(_chk)? printf_size(_info)?"),
    ("formats in memory", r"parse_printf_format register_printf_\w+ __printf_fp"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"xdr\w+ svc\w+ clnt\w+ auth\w+ _auth\w+ key_\w+"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"(pmap|netname|_?rpc|__rpc)\w+"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"x(prt|de|en)\w+ callrpc"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"(des|cbc|ecb|passwd2des|user2|host2)\w*"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"_seterr_reply"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"get_myaddress getnetname"),
    ("Sun RPC: nothing can be linked against it since glibc 2.32", r"getrpcport rtime registerrpc"),
]

FILES: list[Group] = [
    (
        "walks by descriptors of its own; the names that it finds are the program's to open",
        r"fts(64)?_\w+ wordfree globfree(64)? glob_pattern_p",
    ),
    ("only makes a name", r"tmpnam(_r)? tempnam mktemp get(cwd|wd)"),
    ("only makes a name", r"__get(cwd|wd)_chk get_current_dir_name ctermid"),
    ("only makes a name", "realpath __realpath_chk canonicalize_file_name basename dirname __xpg_basename ftok"),
    ("queries a file system, not a file", r"(__)?statfs(64)? statvfs(64)? pathconf"),
    ("queries a file system, not a file", r"ustat (u)?mount umount2? chflags"),
    ("queries a file system, not a file", "name_to_handle_at"),
    (
        "queries the kernel or a server, and reads no file",
        r"(get|free)ifaddrs freeaddrinfo gai_\w+ getpublickey getsecretkey if_\w+ "
        r"(__)?res_(n?(mkquery|send|querydomain)|nquery|nsearch|nmkquery|n?close|iclose|state|[dhmo]\w+) "
        r"__res_(randomid|get_nsaddr|nopt|context_\w+) _res_hconf (__)?(libc_)?dn_\w+ __libc_res_\w+ ns_\w+",
    ),
    (
        "as a call that is hooked, in a thread of libc's own; or in memory",
        r"getaddrinfo_a getutmpx? get_(av)?phys_pages getdate_err catgets ether_(aton|ntoa|line)(_r)? "
        r"getnetname getgroups group_member",
    ),
    (
        "names or locks the system's tables, and moves no bytes",
        r"utmpx?name set(ut|utx)ent lckpwdf",
    ),
    (
        "a small table of the system that no program of the tests or the workflows reads: the ledger reports its bytes",
        "getpw getsg(ent|nam)(_r)? setsgent getalias(ent|byname)(_r)? setaliasent getnetgrent(_r)? setnetgrent "
        "getrpc(ent|byname|bynumber)(_r)? setrpcent ether_(ntohost|hostton) getttyent getttynam setttyent "
        "getfs(ent|file|spec) setfsent getdate(_r)?",
    ),
    (
        "a query to a name server, which no program of the tests or the workflows makes by this function",
        "(__)?res_(querydomain|send|mkquery)",
    ),
    ("reads an entry out of a text in memory", r"sget(sp|sg)ent(_r)?"),
    ("remote shells, which are out of use; by descriptors of libc's own", r"__ivaliduser"),
    ("inside of the name service, for its own modules", r"(__)?nss_\w+ _nss_\w+"),
]

NO_FILES: list[Group] = [
    ("strings and characters", r"(__)?(str|stp|mem|wcs|wcp|wmem|wc|mb)\w+"),
    ("strings and characters", r"(__)?(bcmp|bcopy|bzero|rawmemchr) (r?index|swab|ffs(l|ll)?|__ffs|bsearch)"),
    ("strings and characters", r"(__)?is\w+ _?_?to(upper|lower|ascii|w)\w* __tow\w+"),
    ("strings and characters", r"_to(upper|lower) btowc c(8|16|32)rtomb"),
    ("strings and characters", r"__ctype\w+ (__)?nl_langinfo\w* (__)?\w*locale(conv)? setlocale (__)?n?d?c?n?gettext"),
    ("strings and characters", r"(__)?d?c?n?gettext \w*textdomain\w* (__)?argz_\w+"),
    ("strings and characters", r"envz_\w+ rpmatch fnmatch re(g|_)\w+"),
    ("strings and characters", r"l?ll?(abs|div) (im)?ax(abs|div)"),
    ("strings and characters", r"imax\w+ (a64l|l64a|atoi|atof|atoll?|abs|div|step|advance)"),
    ("strings and characters", r"__xpg_strerror_r (__)?explicit_bzero\w* __mem\w+"),
    ("strings and characters", r"(inet6?|__inet)_\w+ [hn]to[hn][sl] hstrerror getsubopt"),
    ("numbers", r"(copysign|ldexp|frexp|modf|scalbn|finite|__finite|__signbit|__is\w+)[fl]?"),
    ("numbers", r"[qefg]+cvt(_r)? strfrom\w+"),
    ("numbers", r"\w*rand(48|om)?(_buf|_uniform|_r|48_r|om_r)? s?rand\w* [a-z]?rand48(_r)? l?cong48(_r)? seed48(_r)?"),
    ("numbers", r"initstate(_r)? setstate(_r)? get(entropy|random) arc4random\w*"),
    ("memory", r"(__libc_)?(m|c|re|mem|v|pv|aligned_|c)alloc\w*"),
    ("memory", r"reallocarray (__libc_)?(c?free|mall\w+|memalign|pvalloc|valloc)"),
    ("memory", r"posix_memalign (__)?s?brk sstk mall\w+"),
    ("memory", r"mcheck\w* mprobe _?_?obstack\w* __libc_free\w* __default_morecore"),
    ("memory", r"__libc_(memalign|realloc|calloc|malloc)\w* malloc_\w+"),
    ("threads", r"_?_?pthread_\w+ (mtx|cnd|thrd|tss|sem)_\w+ call_once __libc_\w+ __cxa\w+"),
    ("signals", r"(__)?sig\w+ (__)?\w*signal (__xpg|bsd|sysv|g|s)_?signal __sigpause"),
    ("signals", r"__xpg_sig\w+ kill(pg)? raise tgkill"),
    ("signals", r"psig\w+ (_|__sig)?setjmp _?_?(sig)?longjmp(_chk)? (get|set|make|swap)context pause alarm ualarm"),
    ("time", r"(__)?\w*time(s|_r|of|ofday|val|ex)?\w* clock\w* (a|nt|__a)?djtime\w* \w*sleep"),
    ("time", r"[gs]etitimer stime tzset dysize"),
    ("time", r"ntp_\w+ timer_\w+ timegm mktime ftime timespec_\w+ times vtimes"),
    ("the process and the machine", r"(__)?[gs]et(e|r|res|fs)?[ug]id (__)?[gs]etpg\w+"),
    ("the process and the machine", r"(__)?get(ppid|pid|tid|sid|cpu) setsid"),
    ("the process and the machine", r"set(logmask|login) (__bsd_)?[gs]etpgrp"),
    (
        "the process and the machine",
        r"[gs]et(re|res)[ug]id (__)?getgroups\w* setgroups (__)?[gs]et(host|domain|login)(name|id)?(_r)?(_chk)?",
    ),
    ("the process and the machine", r"(__)?\w*rlimit\w* getrusage [gs]etpriority nice"),
    ("the process and the machine", r"(v|u)limit (__)?sched_\w+ prctl ptrace"),
    ("the process and the machine", r"(__)?arch_prctl personality cap[gs]et \w*env"),
    ("the process and the machine", r"\w*environ \w*auxval (__)?sysconf \w*confstr\w*"),
    ("the process and the machine", r"(__)?sysctl sysinfo uname reboot klogctl"),
    ("the process and the machine", r"iop(erm|l) modify_ldt vhangup umask (un)?setenv"),
    ("the process and the machine", r"(create|init|delete|query)_module get_kernel_syms bdflush"),
    ("the process and the machine", r"profil sprofil \w*mcount\w*"),
    ("the process and the machine", r"_mc\w+ (__)?monstartup moncontrol __profile\w*"),
    ("the process and the machine", r"__cyg\w+ __fentry__ ttyslot tr_break"),
    ("the process and the machine", r"(__)?get(domain|host|page|dtable)\w+ gnu_\w+ on_exit setdomainname sethost\w+"),
    ("loaded code", r"_?dl\w+ __libc_start_main __x86_\w+"),
    ("loaded code", r"__cmsg_nxthdr __errno_location __h_errno_location backtrace\w*"),
    ("loaded code", r"__backtrace(_symbols)?"),
    ("attributes of a process to come", r"posix_spawnattr_\w+"),
    ("sets and tables", r"(__)?t(delete|destroy|find|search|walk)(_r)? (__)?twalk\w*"),
    ("sets and tables", r"h(search|create|destroy)(_r)? l(find|search)"),
    ("sets and tables", r"insque remque qsort(_r)? alphasort(64)? versionsort(64)? iconv(_open)? cf\w+"),
]

ALL = [*CLOSERS, *DESCRIPTORS, *STREAMS, *FILES, *NO_FILES]

# What a name that closes looks like.
CLOSES = re.compile(r".*(close|finish|^end\w*ent|unlink_it)\w*$|^(exit|abort|_exit)$")


def exclusion(name: str, groups: list[Group]) -> str | None:
    """Why `name` isn't hooked, or None."""
    for reason, names in groups:
        if any(re.fullmatch(pattern, name) for pattern in names.split()):
            return reason
    return None
