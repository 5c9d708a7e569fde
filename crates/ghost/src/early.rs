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
    use crate::command::Name;
    use kern::standin::Hold;
    use std::process::Command as Program;
    use zerocopy::FromZeros;

    fn ghosts() -> Ghosts {
        Ghosts::adopt(kern::sys::memory_file(b"").expect("a descriptor"))
    }

    /// A child of this process, which ends with its test.
    struct Sleep(std::process::Child);

    impl Sleep {
        fn start() -> Sleep {
            Sleep(Program::new("sleep").arg("100").spawn().expect("sleep"))
        }

        fn pid(&self) -> Pid {
            Pid(self.0.id() as i32)
        }
    }

    impl Drop for Sleep {
        fn drop(&mut self) {
            let _ = self.0.kill().and_then(|()| self.0.wait().map(drop));
        }
    }

    /// This process, which was told to clone one under a number before it opened the hold file.
    struct Cloning {
        ghosts: Ghosts,
        maker: Pid,
        family: u64,
        happened: Vec<Happened>,
        unique: u64,
    }

    impl Cloning {
        fn of(child: Pid) -> Cloning {
            let (mut ghosts, maker) = (ghosts(), Pid(std::process::id() as i32));
            ghosts.expect(maker);
            ghosts.command(maker, Command::Clone { pid: child, sibling: false, name: Name::default() });
            ghosts.opened(2, maker);
            let family = ghosts.ghosts.get(&maker).expect("expected").family;
            Cloning { ghosts, maker, family, happened: Vec::new(), unique: 2 }
        }

        /// `who` holds, and hands this over.
        fn holds(&mut self, who: Pid, said: Hold) {
            self.unique += 2;
            self.ghosts.holds(self.unique, who, self.family, &Hold { slots: 8, ..said }, &mut self.happened);
        }

        /// The maker has heard the command, and tells what came of it.
        fn says(&mut self, ret: i64) {
            let (done, ..) = self.ghosts.ghosts.get(&self.maker).and_then(|maker| maker.working).expect("told at once");
            self.holds(self.maker, Hold { done, ret, ..Hold::new_zeroed() });
        }

        /// The maker holds, and the result of its command came behind that.
        fn held_and_said(&self, result: i64) -> bool {
            matches!(self.happened[..], [Happened::Held { .. }, Happened::Done { outcome, .. }] if outcome.ret == result)
        }
    }

    #[test]
    fn what_was_asked_for_before_its_maker_opened_the_hold_file_is_its_makers() {
        let child = Sleep::start();
        let mut cloning = Cloning::of(child.pid());
        cloning.holds(cloning.maker, Hold::new_zeroed());
        cloning.says(child.pid().0.into());
        assert!(cloning.held_and_said(child.pid().0.into()), "{:?}", cloning.happened);
    }

    #[test]
    fn a_clone_of_nobody_has_failed_and_whoever_was_not_cloned_does_not_hold() {
        let (child, thread) = (Pid(4_194_303), Pid(4_194_302));
        let mut cloning = Cloning::of(child);
        cloning.holds(thread, Hold::new_zeroed());
        assert!(cloning.happened.is_empty() && !cloning.ghosts.has(thread), "{:?}", cloning.happened);
        cloning.holds(cloning.maker, Hold::new_zeroed());
        cloning.says(0);
        assert!(cloning.held_and_said(-1), "{:?}", cloning.happened);
        assert!(!cloning.ghosts.has(child));
    }

    #[test]
    fn a_clone_that_ended_before_its_maker_told_of_it_is_forgotten() {
        let child = Sleep::start();
        let mut cloning = Cloning::of(child.pid());
        cloning.holds(cloning.maker, Hold::new_zeroed());
        cloning.holds(child.pid(), Hold { slot: 1, ..Hold::new_zeroed() });
        cloning.ghosts.left(child.pid());
        cloning.says(child.pid().0.into());
        let told = matches!(cloning.happened.last(), Some(Happened::Done { .. }));
        assert!(told && !cloning.ghosts.has(child.pid()), "{:?}", cloning.happened);
    }

    #[test]
    fn a_user_can_name_only_what_the_kernel_says_is_its_child() {
        let mut ghosts = ghosts();
        ghosts.families.insert(1, Family::new(8));
        ghosts.families.insert(2, Family::ours(8));
        let (child, me) = (Sleep::start(), Pid(std::process::id() as i32));
        let other = Pid(std::os::unix::process::parent_id() as i32);
        let pid = child.pid();
        let says = |maker, family, asked, sibling, ret: Pid| {
            ghosts.has_cloned(maker, family, asked, sibling, i64::from(ret.0))
        };
        assert!(says(me, 1, pid, false, pid) && says(me, 1, Pid::NONE, false, pid));
        assert!(!says(me, 1, Pid(4711), false, pid), "not what was asked");
        assert!(!says(me, 1, Pid::NONE, false, other) && !says(me, 1, Pid::NONE, false, Pid::INIT));
        assert!(!says(me, 1, Pid::NONE, false, Pid(4_194_303)), "nobody");
        assert!(says(pid, 1, Pid::NONE, true, pid) && !says(me, 1, Pid::NONE, true, pid));
        assert!(says(me, 2, Pid(4_194_303), false, Pid(4_194_303)), "our own word");
        drop(child);
        assert!(!says(me, 1, pid, false, pid), "it is gone");
    }
}
