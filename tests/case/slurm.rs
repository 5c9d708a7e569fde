//! Nodes that Slurm starts, inside of an allocation.

use super::scene::{holds, outside, same, Sandbox};
use super::{End, Scene};
use crate::lab::place::Place;
use crate::lab::{Doing, Res};
use std::process::Command;

pub(crate) const SCENES: &[Scene] = &[("slurm_allocation", slurm_allocation)];

/// A cluster of two machines, without accounts and keys: for a network that nobody else is in. What is each machine's own is below /dev/shm, since sandboxes share /tmp.
fn configuration(state: &str) -> String {
    format!(
        "ClusterName=scene\nSlurmctldHost=front\nAuthType=auth/none\nCredType=cred/none\nSlurmUser=root\nSlurmdUser=root\n\
         StateSaveLocation={state}\nSlurmctldPidFile=/dev/shm/slurmctld.pid\nSlurmctldLogFile={state}/controller.log\n\
         SlurmdSpoolDir=/dev/shm/slurmd\nSlurmdPidFile=/dev/shm/slurmd.pid\nSlurmdLogFile={state}/%n.log\n\
         ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSelectType=select/linear\nSwitchType=switch/none\n\
         JobAcctGatherType=jobacct_gather/none\nReturnToService=2\nKillWait=5\nMailProg=/bin/true\n\
         NodeName=n[0-1] State=UNKNOWN\nPartitionName=all Nodes=n[0-1] Default=YES State=UP\n"
    )
}

/// As docs/launchers.md has it: srun starts a node's daemon on each machine, and the end of the allocation ends them, with all that they run.
fn slurm_allocation(place: &Place) -> Res<End> {
    let there = "command -v slurmctld && command -v slurmd && command -v srun && command -v salloc";
    if !Command::new("sh").args(["-c", there]).output().is_ok_and(|done| done.status.success()) {
        return Ok(End::Missing("slurm-wlm is not installed".into()));
    }
    let s = Sandbox::new(place, "slurm_allocation", 2)?;
    s.ok("for n in n0 n1; do shoal fault $n kill-daemon || exit 1; done")?;
    s.until("test \"$(shoal nodes | grep -c ' down ')\" = 2")?;
    let state = place.fresh("slurm").display().to_string();
    std::fs::create_dir(&state).doing("make a directory")?;
    let file = format!("{state}/slurm.conf");
    std::fs::write(&file, configuration(&state)).doing("write a configuration")?;
    let controller = s.start(&format!("exec slurmctld -D -f {file} >{state}/controller.out 2>&1"));
    for host in ["n0", "n1"] {
        let target = s.machine(host)?.to_string();
        let daemon = format!(
            "mkdir -p /dev/shm/slurmd; setsid slurmd -D -f {file} -N {host} >{state}/{host}.out 2>&1 </dev/null &"
        );
        outside(&["nsenter", "-t", &target, "-m", "-p", "-n", "-u", "-i", "--", "bash", "-c", &daemon])?;
    }
    let slurm = format!("export SLURM_CONF={file};");
    s.until(&format!("{slurm} test \"$(sinfo -h -N -o %t 2>/dev/null | xargs)\" = 'idle idle'"))?;
    for end in ["exit 0", "kill -9 $$", "scancel $SLURM_JOB_ID; sleep 20"] {
        let script = format!(
            "srun --ntasks-per-node=1 --no-kill shoal node --config /run/shoal/shoal.toml >/dev/null 2>&1 &
            until test \"$(shoal nodes | grep -c ' up ')\" = 2; do sleep 0.1; done
            shoal run -a -p uname -n | sort
            shoal run -a setsid sh -c \"sleep 1090 & exec sleep 1090\" &
            until test $(shoal ps | grep -c \"sleep 1090\") -ge 4; do sleep 0.1; done
            echo shown
            {end}"
        );
        let (out, job) = (format!("{state}/out"), format!("{state}/job"));
        std::fs::write(&job, script).doing("write a script")?;
        let going = s.start(&format!("{slurm} rm -f {out}; setsid -w salloc -Q -k -N 2 bash {job} >{out} 2>&1; until ! pgrep -f 'sleep 109[0]|^sru[n]' >/dev/null; do sleep 0.1; done"));
        let shown = s.until(&format!("grep -q '^shown' {out}"));
        shown.map_err(|fault| format!("{fault}\n{}", std::fs::read_to_string(&out).unwrap_or_default()))?;
        going.end()?;
        let text = std::fs::read_to_string(&out).doing("read what was said")?;
        let hosts: Vec<&str> = text.lines().filter(|line| line.starts_with('n')).collect();
        same(&format!("where it ran: {text}"), hosts, vec!["n0: n0", "n1: n1"])?;
        s.until("test \"$(shoal nodes | grep -c ' down ')\" = 2 && test \"$(shoal ps --json)\" = '[]'")?;
        holds("nothing is left on any machine", s.count("sleep 1090") == 0)?;
        s.until(&format!("{slurm} test \"$(sinfo -h -N -o %t 2>/dev/null | xargs)\" = 'idle idle'"))?;
    }
    s.ok("kill $(cat /dev/shm/slurmctld.pid)")?;
    controller.end()?;
    Ok(End::Passed)
}
