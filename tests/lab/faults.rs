//! Daemons at their fault points (`kern::faultpoint`): each waits here until it is let go on.

use super::{Doing, Res};
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Watched {
    /// Who comes here waits.
    point: Option<&'static str>,
    /// Who has come.
    held: Option<UnixStream>,
}

/// Everybody goes on at once, but who comes to the point that is watched.
pub(crate) struct Faults {
    state: Arc<(Mutex<Watched>, Condvar)>,
}

impl Faults {
    /// Listens at `socket` for as long as the calling process lives.
    pub(crate) fn listen(socket: &Path) -> Res<Faults> {
        let listener = UnixListener::bind(socket).doing(format!("listen on {}", socket.display()))?;
        let state = Arc::new((Mutex::new(Watched::default()), Condvar::new()));
        let shared = state.clone();
        std::thread::spawn(move || {
            for line in listener.incoming().flatten() {
                let mut point = String::new();
                let _ = line.set_read_timeout(Some(Duration::from_secs(1)));
                let _ = BufReader::new(&line).read_line(&mut point);
                let Ok(mut watched) = shared.0.lock() else { return };
                if watched.point.is_some_and(|wanted| wanted == point.trim_end()) {
                    watched.point = None;
                    watched.held = Some(line);
                    shared.1.notify_all();
                }
            }
        });
        Ok(Faults { state })
    }

    /// The next who comes to `point` is to wait there.
    pub(crate) fn watch(&self, point: &'static str) -> Res {
        let mut watched = self.state.0.lock().doing("watch a fault point")?;
        *watched = Watched { point: Some(point), held: None };
        Ok(())
    }

    /// Waits until somebody is at the point. It goes on when the value is dropped.
    pub(crate) fn reached(&self, within: Duration) -> Res<UnixStream> {
        let watched = self.state.0.lock().doing("wait at a fault point")?;
        let come = |watched: &mut Watched| watched.held.is_none();
        let (mut watched, _) = self.state.1.wait_timeout_while(watched, within, come).doing("wait at a fault point")?;
        watched.held.take().ok_or_else(|| format!("nobody comes to the point within {within:?}"))
    }
}
