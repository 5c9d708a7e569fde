//! Pages of commands, by clap_mangen.

use crate::Page;
use clap::{Arg, Command};
use clap_mangen::Man;
use std::io::Error;

/// Links to the program, each with the command that it is.
const LINKS: &[(&str, &str)] = &[("bpsh", "bpsh"), ("bpcp", "bpcp"), ("bpstat", "bpstat"), ("bpctl", "bpctl")];

const MANUAL: &str = "Manual of shoal";

/// Behind the page of the program itself.
const PROGRAM: &str = r#".SH EXIT STATUS
0 on success, 1 on a failure, which standard error names in one line, and 2 for a mistake in the arguments.
.BR shoal\-run (1)
and the commands like it end as their program does, and with 125 for a failure of their own.
.SH ENVIRONMENT
.TP
.B SHOAL_SOCKET
The socket of the daemon to ask. Without it: the daemon of the space whose program the caller is, or
.IR /run/shoal/shoal.sock .
.TP
.B SHOAL_LOG
What the daemons write into their logs:
.BR error ,
.BR warn ,
.B info
(the default),
.B debug
or
.BR trace .
.SH FILES
.TP
.I /etc/shoal/shoal.toml
The configuration of both daemons,
.BR shoal.toml (5).
.TP
.I /etc/shoal/key
The key of the cluster, the same on all machines.
.TP
.I /run/shoal
The run directory of the daemon.
.TP
.I /var/lib/shoal
Owners, modes and states of the nodes, on the front end.
"#;

pub(crate) fn pages(date: &str) -> Result<Vec<Page>, Error> {
    let mut definition = cli::definition().disable_help_subcommand(true);
    definition.build();
    let mut pages = Vec::new();
    add(&definition, date, &mut pages)?;
    for (link, command) in LINKS {
        pages.push((format!("man1/{link}.1"), format!(".so man1/shoal-{command}.1\n").into_bytes()));
    }
    Ok(pages)
}

fn add(command: &Command, date: &str, pages: &mut Vec<Page>) -> Result<(), Error> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let man = Man::new(plain(command.clone()))
        .title(name.to_uppercase())
        .date(date)
        .source(format!("shoal {}", env!("CARGO_PKG_VERSION")))
        .manual(MANUAL);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    if name == "shoal" {
        text.extend_from_slice(PROGRAM.as_bytes());
    }
    text.extend_from_slice(see_also(&name).as_bytes());
    pages.push((format!("man1/{name}.1"), text));
    command.get_subcommands().filter(|inner| !inner.is_hide_set()).try_for_each(|inner| add(inner, date, pages))
}

/// `--help` and `--version` are said once, in the page of the program.
fn plain(command: Command) -> Command {
    let inner = command.get_name() != "shoal";
    command.mut_args(|arg: Arg| {
        let common = inner && matches!(arg.get_id().as_str(), "help" | "version");
        if common {
            arg.hide(true)
        } else {
            arg
        }
    })
}

fn see_also(name: &str) -> String {
    let mut pages = vec![("shoal", 1), ("shoal.toml", 5), ("shoal", 7)];
    pages.retain(|(page, section)| !(*page == name && *section == 1));
    let lines: Vec<String> = pages.iter().map(|(page, section)| format!(".BR {page} ({section})")).collect();
    format!(".SH SEE ALSO\n{}\n", lines.join(",\n"))
}
