//! The process that moves one process: it stops it and sends its image, or takes an image and makes a process of it.
//!
//! It is a child of the agent, in the space's PID namespace, since ptrace(2) makes its caller wait, and waits for any child (the agent's)
//! would take what the traced threads tell. The agent speaks with it over its standard input.
#![forbid(unsafe_code)]

mod carrier;
mod found;
mod home;
mod lazy;
mod look;
mod orders;
mod out;
mod remains;
mod rouser;
mod slate;
mod streams;
mod take;
mod tended;
mod views;

pub use orders::{Heirs, Held, Home, In, Order, Out, Place, Remain, Said, Sides, Stood};
pub use remains::{in_the_way, open_to_its_user};
pub use slate::Note;
pub use tended::{look_again_us, tend, Tended};
pub use views::Views;

use carrier::Word;
use kern::clock::monotonic_us;
use kern::ns;
use std::cell::Cell;
use std::os::fd::AsFd;
use tracing::debug;
use vocab::{Fault, Result};

/// Bytes that the image of a small process needs while it is made or read.
const ROOM: usize = 1024 * 1024;

/// A process stands still from now on: its mover runs before ordinary programs. Not for a `large` one, which its user may have made so that it takes long.
fn hurry(large: bool) {
    if large {
        return;
    }
    match kern::sched::set_fifo_behind() {
        Ok(()) => HURRIES_UNTIL.set(Some(monotonic_us() + HURRY_US)),
        Err(fault) => debug!(%fault, "a process may stand still for longer"),
    }
}

/// What runs before ordinary programs does so for this long, in microseconds: what is sent, or written into files without a name, may be any amount.
const HURRY_US: u64 = 300_000;

thread_local! {
    static HURRIES_UNTIL: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Nobody waits for this mover any more, or not for so little.
fn rest() -> Result<()> {
    HURRIES_UNTIL.set(None);
    kern::sched::set_ordinary()
}

fn hurries() -> bool {
    HURRIES_UNTIL.get().is_some()
}

/// Called with every piece that goes or comes.
fn tire() {
    if HURRIES_UNTIL.get().is_some_and(|until| monotonic_us() > until) {
        if let Err(fault) = rest() {
            debug!(%fault, "a mover keeps running before ordinary programs");
        }
    }
}

/// Does what the agent orders, as `shoal mover`. `views`: what there is to be seen on this machine.
///
/// # Errors
/// When the agent says nothing that it understands. What goes wrong with the move is told to the agent.
pub fn run(views: Views) -> Result<()> {
    views::set(views);
    ns::set_name("shoal:mover")?;
    // So far it has run as who has started it, who has waited for that.
    rest()?;
    kern::own::be_at_hand(ROOM);
    let line = std::io::stdin().as_fd().try_clone_to_owned();
    let line = line.map_err(|e| Fault::io(&e, "take over the line to the agent"))?;
    kern::own::raise_files()?;
    let mut word = Word::new(line)?;
    let order = word.wait()?;
    if matches!(order, Order::Home(_) | Order::Out(Out { home: true, .. })) {
        // A signal to the daemon's group is not for it.
        ns::new_session()?;
    }
    let done = match order {
        Order::Out(order) => out::send(&order, &mut word),
        Order::In(order) => take::receive(&order, &mut word),
        Order::Home(order) => home::receive(&order, &mut word),
        Order::Remain(order) => {
            hurry(false);
            take::give_back(&order)
        }
        Order::Look(order) => look::look(&order).and_then(|look| word.say(&Said::Looked(look))),
        Order::Suits(needs) => word.say(&Said::Suited(look::missing(&needs))),
        other => Err(Fault::wire(format!("the agent begins with {other:?}"))),
    };
    match done {
        Ok(()) => Ok(()),
        Err(fault) => word.say(&Said::Failed(fault)),
    }
}
