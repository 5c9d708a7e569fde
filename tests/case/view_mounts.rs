//! File systems that are mounted and unmounted on the front end while nodes see its files.

use super::scene::{holds, same};
use super::view::with;
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::Res;

pub(crate) const SCENES: &[Scene] = &[
    ("view_sees_later_mounts", view_sees_later_mounts),
    ("view_heeds_each_mount", view_heeds_each_mount),
    ("view_keeps_nothing_that_others_change", view_keeps_nothing_that_others_change),
];

/// A file system of the network is mounted on the front end: what another machine changes there, of which its kernel hears nothing, nodes see as the front end does.
fn view_keeps_nothing_that_others_change(place: &Place) -> Res<End> {
    let name = "view_keeps_nothing_that_others_change";
    with(place, name, 1, |s, cd| {
        let look = "sh -c 'cat m/f; stat -c %s m/f'";
        s.ok(&format!("{cd} mkdir m; echo 'version 1' >behind"))?;
        let served = s.start(&format!("{cd} python3 {}/case/remote.py m behind", env!("CARGO_MANIFEST_DIR")));
        s.until(&format!("{cd} test -e m/f"))?;
        s.prints(&format!("{cd} shoal run -n 0 -- {look}; shoal run -n 0 -- {look}"), "version 1\n10\nversion 1\n10")?;
        let holds_it = s.start(&format!("{cd} shoal run -n 0 -- sh -c 'exec 3<m/f; cat m/f; until test -e changed; do sleep 0.05; done; cat m/f; cat <&3'"));
        s.ok(&format!("{cd} sleep 0.5; echo 'version 2, longer' >behind; sleep 0.3; touch changed"))?;
        s.prints(&format!("{cd} shoal run -n 0 -- {look}; {look}"), "version 2, longer\n18\nversion 2, longer\n18")?;
        same("who had it open", holds_it.end()?.out.trim(), "version 1\nversion 2, longer\nversion 2, longer")?;
        s.ok(&format!("{cd} umount -l m; pkill -KILL -f 'remote.py m behind'"))?;
        served.end()?;
        Ok(())
    })
}

/// What a mount forbids holds for the files that are reached by it, also where the same file is reached by another one, and from when it is mounted so.
fn view_heeds_each_mount(place: &Place) -> Res<End> {
    with(place, "view_heeds_each_mount", 1, |s, cd| {
        let on_node = "shoal run -n 0 --";
        let user = "setpriv --reuid 1234 --regid 1234 --clear-groups shoal run -n 0 --";
        s.ok(&format!("{cd} chmod 755 .; mkdir data ro suid plain other; echo one >data/f; cp /usr/bin/id suid; chmod 4755 suid/id"))?;
        s.ok(&format!("{cd} mount --bind data ro; mount -o remount,bind,ro ro; mount --bind suid plain; mount -o remount,bind,nosuid plain"))?;
        s.ok(&format!("{cd} {on_node} cat data/f ro/f; {on_node} stat suid/id"))?;
        let said = s.fails(&format!("{cd} {on_node} sh -c 'echo two >>ro/f'"), 2)?;
        holds(&said, said.contains("Read-only file system"))?;
        s.prints(
            &format!("{cd} {on_node} sh -c 'echo two >>data/f'; {on_node} cat ro/f; cat ro/f"),
            "one\ntwo\none\ntwo",
        )?;
        s.prints(&format!("{cd} {user} suid/id -u; {user} plain/id -u"), "0\n1234")?;
        // The directory of a program is the one that it went to.
        s.prints(
            &format!("{cd} {on_node} sh -c 'cd suid; ls ../plain >/dev/null; /bin/pwd' | xargs basename"),
            "suid",
        )?;
        // Attributes that change by one mount are seen by the other.
        s.ok(&format!("{cd} {on_node} chmod 640 data/f"))?;
        s.until(&format!("{cd} test \"$({on_node} stat -c %a ro/f data/f | xargs)\" = '640 640'"))?;
        s.ok(&format!("{cd} mount -t tmpfs other other; cp /usr/bin/id other; chmod 4755 other/id; chmod 755 other"))?;
        s.until(&format!("{cd} test \"$({user} other/id -u)\" = 0"))?;
        s.ok(&format!("{cd} mount -o remount,nosuid other"))?;
        s.until(&format!("{cd} test \"$({user} other/id -u)\" = 1234"))?;
        s.ok(&format!("{cd} mount -o remount,noexec other"))?;
        s.until(&format!("{cd} ! {user} other/id -u"))?;
        s.ok(&format!("{cd} umount -l ro plain other"))?;
        Ok(())
    })
}

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
