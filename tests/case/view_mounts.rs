//! File systems that are mounted and unmounted on the front end while nodes see its files.

use super::scene::holds;
use super::view::with;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[("view_sees_later_mounts", view_sees_later_mounts)];

/// A file system that is mounted on a directory that a node knows, and unmounted again, is seen there; one that a program uses stays busy.
fn view_sees_later_mounts(place: &Place) -> Res<End> {
    with(place, "view_sees_later_mounts", 2, |s, cd| {
        let look = "shoal run -n 0 -- sh -c 'cat later/word; cat later/other'";
        s.ok(&format!("{cd} mkdir later; echo below >later/word; echo other >later/other; {look}"))?;
        s.prints(&format!("{cd} {look}"), "below\nother")?;
        s.ok(&format!("{cd} mount -t tmpfs later later; echo above >later/word"))?;
        s.until(&format!("{cd} test \"$({look} 2>&1)\" = 'above\ncat: later/other: No such file or directory'"))?;
        s.ok(&format!("{cd} shoal run -n 1 -- sh -c 'echo more >>later/word'; grep more later/word"))?;
        let user = s.start(&format!("{cd} cd later; shoal run -n 0 -- sleep 1277"));
        s.until("shoal ps | grep -q 'sleep 1277'")?;
        let said = s.fails(&format!("{cd} shoal view --let-go later"), 1)?;
        holds(&said, said.contains("in use on nodes"))?;
        s.ok("pkill -fx 'sleep 1277'")?;
        user.end()?;
        s.ok(&format!("{cd} {look} 2>/dev/null; shoal view --let-go later && umount later"))?;
        s.until(&format!("{cd} test \"$({look} 2>&1)\" = 'below\nother'"))?;
        // A file on a file.
        s.ok(&format!("{cd} echo bound >b; mount --bind b later/word"))?;
        s.until(&format!("{cd} test \"$(shoal run -n 0 -- cat later/word)\" = bound"))?;
        s.ok(&format!("{cd} umount -l later/word"))?;
        s.until(&format!("{cd} test \"$(shoal run -n 0 -- cat later/word)\" = below"))?;
        Ok(())
    })
}
