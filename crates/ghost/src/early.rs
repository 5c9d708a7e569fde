//! Clones whose number the kernel chooses: one may hold before its maker has told its number. Who asked for it must hear the
//! number first, so it is told as held only then.

use crate::command::Command;
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

    /// May a member of `family`, told to clone `asked`, have cloned `ret`? What a stand-in says is its user's word: it must not name
    /// somebody else's.
    pub(crate) fn may_have_cloned(&self, family: u64, asked: Pid, ret: i64) -> bool {
        if asked != Pid::NONE {
            return ret == i64::from(asked.0);
        }
        let known = |pid: Pid| self.ghosts.get(&pid).is_some_and(|ghost| ghost.family != family);
        i32::try_from(ret).is_ok_and(|pid| !known(Pid(pid)))
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
