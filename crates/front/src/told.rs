//! Which events of the space change what a view of /proc shows.

use procfs::told::Told;
use space::{BodyEvent, Event};

/// The space is about to hear of this, and a view is to.
pub(crate) fn about(told: &mut Told, event: &Event) {
    match event {
        Event::Held { pid } | Event::Gone { pid } | Event::Moved { pid, .. } | Event::Leaves { pid } => {
            told.changed(*pid);
        }
        Event::GhostFound { person, .. } => told.changed(person.pid),
        // Only now is it known where they are, of a daemon that follows another one.
        Event::NodeBack { bodies, .. } => bodies.iter().for_each(|person| told.changed(person.pid)),
        // A ghost is there to be shown when it holds, and what is told before of it is not bound onto anything.
        Event::Body { event: BodyEvent::Forked { .. } | BodyEvent::Reaped { .. }, .. } => {}
        // The body has become something else, and then what shows it has.
        Event::Body { event, .. } => {
            let other = matches!(event, BodyEvent::Named { .. } | BodyEvent::Credentials { .. });
            told.stirs(event.pid(), other);
        }
        Event::Done { pid, .. } => told.stirs(*pid, false),
        _ => {}
    }
}
