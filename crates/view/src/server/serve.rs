//! One request after the other, each with the rights of who asks.

use super::busy::{counts, Request};
use super::call::Call;
use super::session::{Said, Session};
use super::{spawn, Server};
use crate::fuse::{op, take};
use crate::line::lock;
use kern::acting::{Acting, Waiter};
use kern::fuse::raw;
use std::sync::mpsc::Receiver;
use std::sync::Arc;
use tracing::warn;
use vocab::errno::{EAGAIN, EINTR, EIO};

/// Between two calls to a thread that is to give its call up, in milliseconds: it may be on its way into the call.
const AGAIN_MS: i32 = 2;

/// Calls threads away from what they wait for, until they have given that up.
pub(super) fn call_off(orders: &Receiver<(Arc<Session>, u64)>) {
    let mut all: Vec<(Arc<Session>, u64)> = Vec::new();
    loop {
        if all.is_empty() {
            match orders.recv() {
                Ok(one) => all.push(one),
                Err(_) => return,
            }
        }
        all.extend(orders.try_iter());
        all.retain(|(session, unique)| {
            let waiting = lock(&session.waiting);
            waiting.get(unique).copied().map(Waiter::call_away).is_some()
        });
        if !all.is_empty() {
            let _ = kern::poll::poll(&[], AGAIN_MS);
        }
    }
}

impl Server {
    /// Serves a request, and then those of the same user that have waited for that; or puts it aside until others are served.
    pub(super) fn serve_in_turn(self: &Arc<Self>, session: &Arc<Session>, acting: &mut Acting, request: Request) {
        let Ok((header, _)) = raw::split(&request.request) else {
            return session.answer(request.number, Said::errno(EIO));
        };
        if !counts(&header) {
            return self.serve(session, acting, request);
        }
        let request = Request { unique: header.unique, ..request };
        let mut next = lock(&session.busy).begin(header.uid, request);
        while let Some(request) = next {
            self.serve(session, acting, request);
            next = lock(&session.busy).end(header.uid);
        }
    }

    fn serve(self: &Arc<Self>, session: &Arc<Session>, acting: &mut Acting, asked: Request) {
        let Request { number, groups, hint, silent, request, .. } = asked;
        let Ok((header, body)) = raw::split(&request) else {
            return session.answer(number, Said::errno(EIO));
        };
        session.counts.request(header.opcode);
        let user = header.uid;
        let (header, groups) = self.config.squash.applied(session.node, header, groups);
        match header.opcode {
            op::INTERRUPT => self.interrupt(session, number, body),
            op::SETLKW => {
                if let Err(errno) = lock(&session.busy).lock(user) {
                    return session.answer(number, Said::errno(errno));
                }
                // The call may wait for good. A thread begins as who makes it.
                acting.become_root();
                let (server, waits, body) = (self.clone(), session.clone(), body.to_vec());
                let call = move || {
                    if let Ok(mut acting) = Acting::begin() {
                        let (coherence, session) = (&server.coherence, &waits);
                        Call { coherence, session, acting: &mut acting, header, groups, hint }
                            .serve(number, &body, silent);
                    }
                    lock(&waits.busy).locked(user);
                };
                if let Err(fault) = spawn("lock", call) {
                    warn!(%fault, "view");
                    lock(&session.busy).locked(user);
                    session.answer(number, Said::errno(EAGAIN));
                }
            }
            _ => {
                let coherence = &self.coherence;
                Call { coherence, session, acting, header, groups, hint }.serve(number, body, silent);
            }
        }
    }

    fn interrupt(&self, session: &Arc<Session>, number: u64, body: &[u8]) {
        if let Ok((unique, _)) = take::<u64>(body) {
            let put_aside = lock(&session.busy).call_off(unique);
            if let Some(put_aside) = put_aside {
                session.answer(put_aside, Said::errno(EINTR));
            }
            // The thread lives as long as the process.
            let _ = self.called_off.send((session.clone(), unique));
        }
        session.answer_silently(number);
    }
}
