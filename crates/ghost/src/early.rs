//! Clones whose number the kernel chooses: one may hold before its maker has told its number. Who asked for it must hear the
//! number first, so it is told as held only then.

use crate::command::Command;
use crate::family::Family;
use crate::table::{Ghosts, Happened};
use vocab::Pid;

/// One that holds and is not told yet.
#[derive(Debug)]
pub(crate) struct Early {
    pub(crate) pid: Pid,
    pub(crate) maker: Pid,
}

fn is_nameless(command: &Command) -> bool {
    matches!(command, Command::Clone { pid: Pid::NONE, .. })
}

impl Ghosts {
    /// Who of this address space is cloning a stand-in without a given number.
    pub(crate) fn nameless_maker(&self, family: u64) -> Option<Pid> {
        let mut makers = self.ghosts.iter();
        let clones = |(_, command, _): &(u32, Command, Option<u32>)| is_nameless(command);
        makers.find(|(_, g)| g.family == family && g.working.as_ref().is_some_and(clones)).map(|(pid, _)| *pid)
    }

    /// May `maker`, a member of `family` that was told to clone `asked`, have cloned `ret`? What a stand-in says is its user's word, unless its
    /// memory is ours: it must name neither somebody else's nor nobody, so the kernel is asked whose child that is.
    pub(crate) fn has_cloned(&self, maker: Pid, family: u64, asked: Pid, sibling: bool, ret: i64) -> bool {
        let Ok(child) = i32::try_from(ret).map(Pid) else { return false };
        let other = self.ghosts.get(&child).is_some_and(|ghost| ghost.family != family);
        if other || (asked != Pid::NONE && asked != child) {
            return false;
        }
        self.families.get(&family).is_some_and(Family::is_ours) || self.is_child(maker, child, sibling)
    }

    /// Does the kernel say that `child` is a child of `maker`, or (`sibling`) of its parent? `maker` waits for us, so it lives.
    fn is_child(&self, maker: Pid, child: Pid, sibling: bool) -> bool {
        let Some(proc) = &self.proc else { return false };
        let parent = |pid| proc.parent(pid).ok();
        loop {
            let wanted = if sibling { parent(maker) } else { Some(maker) };
            let found = parent(child);
            if found.is_none() || found == wanted {
                return found.is_some();
            }
            // Their parent may have ended between the two looks.
            if !sibling || parent(maker) == wanted {
                return false;
            }
        }
    }

    /// `maker` has told what came of its command.
    pub(crate) fn told(&mut self, maker: Pid, command: &Command, ret: i64, happened: &mut Vec<Happened>) {
        if !is_nameless(command) {
            return;
        }
        if ret <= 0 {
            return self.maker_gone(maker, happened);
        }
        let pid = Pid(ret as i32);
        if let Some(at) = self.early.iter().position(|early| early.pid == pid) {
            self.early.swap_remove(at);
            happened.push(Happened::Held { pid });
        }
    }

    /// Its maker will not tell of these any more.
    pub(crate) fn maker_gone(&mut self, gone: Pid, happened: &mut Vec<Happened>) {
        self.early.retain(|early| early.pid != gone);
        let (its, others): (Vec<Early>, Vec<Early>) =
            std::mem::take(&mut self.early).into_iter().partition(|early| early.maker == gone);
        self.early = others;
        happened.extend(its.into_iter().map(|early| Happened::Held { pid: early.pid }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kern::standin::Hold;
    use std::os::fd::OwnedFd;
    use std::process::Command as Program;
    use zerocopy::FromZeros;

    #[test]
    fn what_was_asked_for_before_its_maker_opened_the_hold_file_is_its_makers() {
        let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
        let mut child = Program::new("sleep").arg("100").spawn().expect("sleep");
        let (maker, pid) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
        ghosts.expect(maker);
        ghosts.command(maker, Command::Clone { pid, sibling: false, name: crate::command::Name::default() });
        ghosts.opened(2, maker);
        let fh = ghosts.ghosts.get(&maker).expect("expected").family;
        let mut happened = Vec::new();
        let hold = Hold { slots: 8, ..Hold::new_zeroed() };
        ghosts.holds(4, maker, fh, &hold, &mut happened);
        let (tag, ..) = ghosts.ghosts.get(&maker).and_then(|maker| maker.working).expect("it is told at once");
        ghosts.holds(6, maker, fh, &Hold { done: tag, ret: pid.0.into(), ..hold }, &mut happened);
        assert!(
            matches!(happened[..], [Happened::Held { .. }, Happened::Done { outcome, .. }] if outcome.ret == pid.0.into()),
            "{happened:?}"
        );
        child.kill().and_then(|()| child.wait()).expect("my child");
    }

    #[test]
    fn a_clone_of_nobody_has_failed_and_whoever_was_not_cloned_does_not_hold() {
        let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
        let (maker, child, thread) = (Pid(std::process::id() as i32), Pid(4_194_303), Pid(4_194_302));
        ghosts.expect(maker);
        ghosts.command(maker, Command::Clone { pid: child, sibling: false, name: crate::command::Name::default() });
        ghosts.opened(2, maker);
        let fh = ghosts.ghosts.get(&maker).expect("expected").family;
        let mut happened = Vec::new();
        let hold = Hold { slots: 8, ..Hold::new_zeroed() };
        ghosts.holds(4, thread, fh, &hold, &mut happened);
        assert!(happened.is_empty() && !ghosts.has(thread), "{happened:?}");
        ghosts.holds(6, maker, fh, &hold, &mut happened);
        let (tag, ..) = ghosts.ghosts.get(&maker).and_then(|maker| maker.working).expect("it is told at once");
        ghosts.holds(8, maker, fh, &Hold { done: tag, ret: 0, ..hold }, &mut happened);
        assert!(
            matches!(happened[..], [Happened::Held { .. }, Happened::Done { outcome, .. }] if outcome.ret == -1),
            "{happened:?}"
        );
        assert!(!ghosts.has(child));
    }

    #[test]
    fn a_clone_that_ended_before_its_maker_told_of_it_is_forgotten() {
        let mut ghosts = Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"));
        let mut child = Program::new("sleep").arg("100").spawn().expect("sleep");
        let (maker, pid) = (Pid(std::process::id() as i32), Pid(child.id() as i32));
        ghosts.expect(maker);
        ghosts.command(maker, Command::Clone { pid, sibling: false, name: crate::command::Name::default() });
        ghosts.opened(2, maker);
        let fh = ghosts.ghosts.get(&maker).expect("expected").family;
        let mut happened = Vec::new();
        let hold = Hold { slots: 8, ..Hold::new_zeroed() };
        ghosts.holds(4, maker, fh, &hold, &mut happened);
        let (tag, ..) = ghosts.ghosts.get(&maker).and_then(|maker| maker.working).expect("it is told at once");
        ghosts.holds(6, pid, fh, &Hold { slot: 1, ..hold }, &mut happened);
        ghosts.left(pid);
        ghosts.holds(8, maker, fh, &Hold { done: tag, ret: pid.0.into(), ..hold }, &mut happened);
        assert!(!ghosts.has(pid) && matches!(happened.last(), Some(Happened::Done { .. })), "{happened:?}");
        child.kill().and_then(|()| child.wait()).expect("my child");
    }

    #[test]
    fn a_user_can_name_only_what_the_kernel_says_is_its_child() {
        let device: OwnedFd = kern::sys::memory_file(b"").expect("a descriptor");
        let mut ghosts = Ghosts::adopt(device);
        ghosts.families.insert(1, Family::new(8));
        ghosts.families.insert(2, Family::ours(8));
        let me = Pid(std::process::id() as i32);
        let mut child = Program::new("sleep").arg("100").spawn().expect("sleep");
        let other = Pid(std::os::unix::process::parent_id() as i32);
        let pid = Pid(child.id() as i32);
        let says = |maker, family, asked, sibling, ret: Pid| {
            ghosts.has_cloned(maker, family, asked, sibling, i64::from(ret.0))
        };
        assert!(says(me, 1, pid, false, pid) && says(me, 1, Pid::NONE, false, pid));
        assert!(!says(me, 1, Pid(4711), false, pid), "not what was asked");
        assert!(!says(me, 1, Pid::NONE, false, other) && !says(me, 1, Pid::NONE, false, Pid::INIT));
        assert!(!says(me, 1, Pid::NONE, false, Pid(4_194_303)), "nobody");
        assert!(says(pid, 1, Pid::NONE, true, pid) && !says(me, 1, Pid::NONE, true, pid));
        assert!(says(me, 2, Pid(4_194_303), false, Pid(4_194_303)), "our own word");
        child.kill().and_then(|()| child.wait()).expect("my child");
        assert!(!says(me, 1, pid, false, pid), "it is gone");
    }
}
