//! Images that another user than root could write: an image says whose its process is and what it may, and root makes of it what its writer might be.

use super::scene::{holds, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};

pub(crate) const SCENES: &[Scene] = &[
    ("restore_of_a_users_image", restore_of_a_users_image),
    ("restore_of_what_others_write", restore_of_what_others_write),
    ("restore_of_a_group_that_is_not_theirs", restore_of_a_group_that_is_not_theirs),
    ("restore_of_limits_above_ones_own", restore_of_limits_above_ones_own),
    ("copy_opens_nothing_by_the_programs_right", copy_opens_nothing_by_the_programs_right),
];

const ANN: &str = "setpriv --reuid 61001 --regid 61001 --clear-groups";

/// A sandbox with a directory of images, in which the machine knows Ann and her group.
struct Stage {
    s: Sandbox,
    dir: String,
}

impl Stage {
    fn new(place: &Place, name: &str) -> Res<Stage> {
        let s = Sandbox::new(place, name, 1)?;
        let dir = place.fresh("images").display().to_string();
        s.ok(&format!(
            "mkdir -m 777 {dir}; cp /etc/passwd /etc/group /run/
            echo ann:x:61001:61001::/:/bin/sh >>/run/passwd; echo ann:x:61001: >>/run/group
            for file in passwd group; do mount --bind /run/$file /etc/$file; done"
        ))?;
        Ok(Stage { s, dir })
    }

    /// The image of a process of `user`, as a file of Ann's; its number.
    fn image(&self, user: &str, file: &str) -> Res<String> {
        let (s, dir) = (&self.s, &self.dir);
        let asleep = format!("{user} sh -c 'sleep 1081 </dev/null >/dev/null 2>&1 & echo $!'");
        s.ok(&format!("pid=$({asleep}); shoal checkpoint $pid --stop -o {dir}/{file} && chown 61001:61001 {dir}/{file}; echo $pid"))
    }

    /// Root does not restore the process, and says why.
    fn refuses(&self, command: &str, pid: &str, words: &[&str]) -> Res {
        let line = self.s.fails(command, 1)?;
        holds(&format!("{line:?} says {words:?}"), words.iter().all(|word| line.contains(word)))?;
        self.s.ok(&format!("test ! -e /proc/{pid}")).map(drop)
    }
}

fn restore_of_a_users_image(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "restore_of_a_users_image")?;
    let Stage { s, dir } = &stage;
    let of_ann = stage.image(ANN, "own")?;
    s.prints(
        &format!("shoal restore --detach {dir}/own && stat -c %u:%g /proc/{of_ann} && kill {of_ann}"),
        "61001:61001",
    )?;
    for (user, word) in [
        ("", "of user"),
        ("setpriv --reuid 61002 --regid 61001 --clear-groups", "of user"),
        ("setpriv --reuid 61001 --regid 0 --clear-groups", "in group 0"),
        ("setpriv --reuid 61001 --regid 61001 --groups 61005", "in group 61005"),
        ("nice -n -5 setpriv --reuid 61001 --regid 61001 --clear-groups", "scheduled before others"),
        (
            "setpriv --reuid 61001 --regid 61001 --clear-groups --inh-caps +chown --ambient-caps +chown",
            "with capabilities",
        ),
    ] {
        // As it was made, so that its owner may write it.
        let pid = stage.image(user, "doctored")?;
        for from in [format!("{dir}/doctored"), format!("- <{dir}/doctored")] {
            stage.refuses(&format!("shoal restore --detach {from}"), &pid, &["a file of user 61001's", word])?;
        }
        s.ok(&format!("shoal restore --trust --detach {dir}/doctored && kill {pid}; rm {dir}/doctored"))?;
    }
    Ok(End::Passed)
}

/// What makes a copy has the right of the program's file, and opens for it the memory of no other that has it: a process has open what was a child's of Ann's, which is a `shoal copy` of that number by
/// then, and waits on the node.
fn copy_opens_nothing_by_the_programs_right(place: &Place) -> Res<End> {
    let s = Sandbox::new(place, "copy_opens_nothing_by_the_programs_right", 1)?;
    let dir = place.fresh("copies").display().to_string();
    s.ok(&format!("mkdir -m 777 {dir}"))?;
    let script = r#"cd $1; mkfifo go
        perl -e 'use IO::Socket::INET; my $l = IO::Socket::INET->new(LocalPort => 7777, Listen => 9); sleep 60' & listens=$!
        address=$(shoal run -n 0 sh -c 'getent hosts front' | cut -d' ' -f1)
        key=$(printf '07%.0s' $(seq 32))
        (read x <go; exec env SHOAL_COPY_OF="$address:7777 $key 1" shoal run -n 0 shoal copy >/dev/null 2>&1) & other=$!
        perl -e 'open my $f, "+<", "/proc/$ARGV[0]/mem" or die; open my $g, ">", "opened"; sleep 1081' $other & opens=$!
        until test -e opened; do sleep 0.1; done
        coproc shoal copy-origin 1
        read -u ${COPROC[0]} word port key
        echo $opens >&${COPROC[1]}
        read -u ${COPROC[0]} word && echo $word
        echo >go; sleep 0.7
        SHOAL_COPY_OF="$address:$port $key 1" shoal run -n 0 shoal copy >/dev/null 2>&1 &
        read -u ${COPROC[0]} word rest; echo $word
        kill -9 $! $other $opens $listens"#;
    let file = format!("{dir}/script");
    std::fs::write(&file, script).doing("write a script")?;
    s.prints(&format!("{ANN} bash {file} {dir} 2>/dev/null"), "written\nfailed")?;
    Ok(End::Passed)
}

/// An image that comes by a named pipe is the word of the pipe's owner, and a file that others may write is nobody's.
fn restore_of_what_others_write(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "restore_of_what_others_write")?;
    let Stage { s, dir } = &stage;
    let pid = stage.image("", "of_root")?;
    let by = |fifo: &str| {
        format!("cat {dir}/of_root >{fifo} & shoal restore --detach {fifo}; code=$?; kill %1 2>/dev/null; exit $code")
    };
    s.ok(&format!(
        "{ANN} mkfifo -m 666 {dir}/anns; mkfifo -m 600 {dir}/roots; mkfifo {dir}/open; chmod 622 {dir}/open"
    ))?;
    stage.refuses(&by(&format!("{dir}/anns")), &pid, &["a file of user 61001's", "of user"])?;
    stage.refuses(&by(&format!("{dir}/open")), &pid, &["others than root may write", "622"])?;
    s.ok(&format!("cat {dir}/of_root | shoal restore --detach - && kill {pid}"))?;
    s.ok(&format!("cat {dir}/of_root >{dir}/roots & shoal restore --detach {dir}/roots && kill {pid}"))?;
    s.ok(&format!("chown 0:0 {dir}/of_root; chmod 620 {dir}/of_root"))?;
    stage.refuses(&format!("shoal restore --detach {dir}/of_root"), &pid, &["others than root may write", "620"])?;
    s.ok(&format!("shoal restore --trust --detach {dir}/of_root && kill {pid}"))?;
    s.ok(&format!("chmod 600 {dir}/of_root; shoal restore --detach {dir}/of_root && kill {pid}"))?;
    Ok(End::Passed)
}

/// A file in a set-group-ID directory has that directory's group, in which its owner need not be.
fn restore_of_a_group_that_is_not_theirs(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "restore_of_a_group_that_is_not_theirs")?;
    let Stage { s, dir } = &stage;
    let pid = stage.image("setpriv --reuid 61001 --regid 61005 --clear-groups", "of_group")?;
    s.ok(&format!("mkdir {dir}/shared; chown 0:61005 {dir}/shared; chmod 2777 {dir}/shared; {ANN} cp {dir}/of_group {dir}/shared/"))?;
    s.prints(&format!("stat -c %u:%g {dir}/shared/of_group"), "61001:61005")?;
    stage.refuses(&format!("shoal restore --detach {dir}/shared/of_group"), &pid, &["in group 61005"])?;
    // In which she is, by the machine's word.
    s.ok("echo lab:x:61005:ann >>/run/group")?;
    s.ok(&format!("shoal restore --detach {dir}/shared/of_group && kill {pid}"))?;
    Ok(End::Passed)
}

/// Nobody knows the limits of the owner of an image: they are not above those of who restores.
fn restore_of_limits_above_ones_own(place: &Place) -> Res<End> {
    let stage = Stage::new(place, "restore_of_limits_above_ones_own")?;
    let Stage { s, dir } = &stage;
    let pid = stage.image(&format!("prlimit --stack=100000000:200000000 {ANN}"), "limits")?;
    let restore = format!("shoal restore --detach {dir}/limits");
    stage.refuses(&format!("prlimit --stack=1000000:100000000 {restore}"), &pid, &["with 200000000 as limit 3"])?;
    s.ok(&format!("prlimit --stack=1000000:200000000 {restore} && grep -q 'stack size *100000000 *200000000' /proc/{pid}/limits && kill {pid}"))?;
    Ok(End::Passed)
}
