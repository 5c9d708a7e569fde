//! BProc's calls, as `include/sys/bproc.h` has them; `man 3 bproc` says what each does.

mod changes;
mod command;
mod copies;
mod dump;
mod exec;
mod execdump;
mod fork;
mod io;
mod nodes;
mod nodeset;
mod processes;
mod text;
mod types;
mod vrfork;
mod words;
