//! Who is made, by whom and where, for some families.

use super::*;

fn person(pid: i32, ppid: i32, pgid: i32, sid: i32) -> Person {
    let [pid, ppid, pgid, sid] = [pid, ppid, pgid, sid].map(Pid);
    Person { pid, ppid, pgid, sid, creds: Creds::default(), name: b"x".to_vec() }
}

fn makes(plan: &Plan) -> Vec<(i32, i32, bool, Place)> {
    plan.makes.iter().map(|m| (m.person.pid.0, m.maker.0, m.sibling, m.place)).collect()
}

fn fresh(person: &Person, kin: &[Person]) -> Plan {
    plan(person, false, kin, &Stands::default(), &Bodies::default()).expect("a plan")
}

#[test]
fn a_job_of_a_shell_needs_only_the_shell() {
    let shell = person(100, 1, 100, 100);
    let plan = fresh(&person(200, 100, 200, 100), &[shell]);
    assert_eq!(makes(&plan), [(100, 0, true, Place::Session)]);
    assert_eq!((plan.parent, plan.place), (Pid(100), Place::Lead));
}

#[test]
fn a_leader_that_comes_after_its_members_is_its_parents_child_and_becomes_its_program() {
    let kin = [person(100, 1, 100, 100), person(200, 100, 200, 100)];
    let plan = fresh(&person(201, 100, 200, 100), &kin);
    assert_eq!(makes(&plan), [(100, 0, true, Place::Session), (200, 100, false, Place::Lead)]);
    let mut stands = Stands::default();
    kin.iter().for_each(|one| stands.add(one.clone(), Why::Kin, None, Pid(100)));
    let plan = super::plan(&kin[1], false, &kin[..1], &stands, &Bodies::default()).expect("a plan");
    assert_eq!((makes(&plan), plan.parent, plan.place), (vec![], Pid(200), Place::Stay));
}

#[test]
fn a_parent_stands_below_who_takes_its_orphans() {
    let mut stands = Stands::default();
    stands.take_orphans(Pid(120), true);
    let makes_of = |kin: &[Person], ppid| {
        let plan =
            plan(&person(200, ppid, 200, kin[1].sid.0), false, kin, &stands, &Bodies::default()).expect("a plan");
        assert_eq!(plan.parent, Pid(ppid));
        makes(&plan)
    };
    // The shell 100 has started 120, and that, through others, 150.
    let (taker, shell) = (person(120, 100, 120, 100), person(100, 1, 100, 100));
    let same_session = [taker.clone(), person(150, 140, 120, 100), shell.clone()];
    let expected = [(100, 0, true, Place::Session), (120, 100, false, Place::Lead), (150, 120, false, Place::Stay)];
    assert_eq!(makes_of(&same_session, 150), expected);
    // 130 is a session of its own below 120, and 150 is in it.
    let own_session = [taker.clone(), person(150, 140, 130, 130), shell.clone(), person(130, 125, 130, 130)];
    let expected = [
        (100, 0, true, Place::Session),
        (120, 100, false, Place::Lead),
        (130, 120, false, Place::Session),
        (150, 130, false, Place::Stay),
    ];
    assert_eq!(makes_of(&own_session, 150), expected);
    let leads = [taker.clone(), person(150, 140, 150, 150), shell];
    let expected = [(100, 0, true, Place::Session), (120, 100, false, Place::Lead), (150, 120, false, Place::Session)];
    assert_eq!(makes_of(&leads, 150), expected);
}

#[test]
fn an_orphan_is_made_by_the_one_that_leaves_it() {
    let mut stands = Stands::default();
    stands.add(person(100, 1, 100, 100), Why::Kin, None, Pid::INIT);
    stands.add(person(150, 100, 150, 100), Why::Runner, None, Pid(100));
    let planned = |orphan: &Person, stands: &Stands| {
        plan_orphan(orphan, Pid(150), &[], stands, &Bodies::default())
            .map(|makes| makes.iter().map(|m| (m.person.pid.0, m.maker.0, m.place)).collect::<Vec<_>>())
    };
    assert_eq!(planned(&person(200, 120, 150, 100), &stands), Ok(vec![(200, 150, Place::Stay)]));
    assert_eq!(planned(&person(200, 120, 200, 200), &stands), Ok(vec![(200, 150, Place::Session)]));
    stands.get_mut(Pid(150)).expect("it stands").ending = true;
    let orphan = person(200, 120, 150, 100);
    assert!(planned(&orphan, &stands).is_err());
    stands.add(orphan.clone(), Why::Handle, Some(Pid(150)), Pid(150));
    assert_eq!(planned(&orphan, &stands), Ok(vec![]), "it is made once");
}

/// Root's shell 100 stands here as kin of ann's `shoal run` 150; what a program of root's needs, ann's process must not make.
#[test]
fn a_users_own_stand_in_makes_that_users_processes_only() {
    let ann = Creds { uid: vocab::Ids::all(7), gid: vocab::Ids::all(7), groups: vec![] };
    let mut stands = Stands::default();
    stands.add(Person { creds: ann.clone(), ..person(150, 1, 150, 100) }, Why::Runner, None, Pid::INIT);
    let of_root = person(200, 150, 200, 100);
    let plan = super::plan(&of_root, false, &[], &stands, &Bodies::default()).expect("a plan");
    assert_eq!(plan.parent, STEP_PARENT);
    assert!(plan.makes.iter().all(|make| make.maker != Pid(150)), "{plan:?}");
    let of_ann = Person { creds: ann.clone(), ..of_root.clone() };
    let plan = super::plan(&of_ann, false, &[], &stands, &Bodies::default()).expect("a plan");
    assert_eq!((plan.parent, makes(&plan)), (Pid(150), vec![]));
    let handles = [of_root.clone(), of_ann.clone()].map(|one| plan_handle(&one, &[], &stands, &Bodies::default()));
    assert_eq!(handles.map(|makes| makes.iter().any(|make| make.maker == Pid(150))), [false, true]);
    // What it has made is its user's as well, and no program is put in its place.
    stands.add(of_ann, Why::Kin, Some(Pid(150)), Pid(150));
    assert!(stands.get(Pid(200)).is_some_and(|stand| stand.apart() && !stand.may_make(&of_root.creds)));
    assert!(super::plan(&of_root, false, &[], &stands, &Bodies::default()).is_err());
}

#[test]
fn a_shell_that_stands_already_is_used_again() {
    let mut stands = Stands::default();
    stands.add(person(100, 1, 100, 100), Why::Kin, None, Pid(1));
    let plan = plan(&person(201, 100, 201, 100), false, &[], &stands, &Bodies::default()).expect("a plan");
    assert_eq!((makes(&plan), plan.parent), (vec![], Pid(100)));
}

#[test]
fn a_script_in_a_job_is_a_child_of_the_shell_so_that_its_group_is_not_orphaned() {
    let kin = [person(100, 1, 100, 100), person(150, 100, 150, 100)];
    let plan = fresh(&person(200, 150, 150, 100), &kin);
    assert_eq!(makes(&plan), [(100, 0, true, Place::Session), (150, 100, false, Place::Lead)]);
    assert_eq!((plan.parent, plan.place), (Pid(150), Place::Stay));
}

#[test]
fn a_pipeline_joins_the_group_of_its_leader() {
    let kin = [person(100, 1, 100, 100), person(190, 100, 190, 100)];
    let plan = fresh(&person(200, 100, 190, 100), &kin);
    assert_eq!(makes(&plan), [(100, 0, true, Place::Session), (190, 100, false, Place::Lead)]);
    assert_eq!((plan.parent, plan.place), (Pid(100), Place::Join(Pid(190))));
}

#[test]
fn numbers_of_dead_leaders_are_held_by_husks() {
    let parent = person(150, 1, 140, 100);
    let plan = fresh(&person(200, 150, 140, 100), &[parent]);
    let order: Vec<_> = plan.makes.iter().map(|m| (m.person.pid.0, m.why)).collect();
    assert_eq!(order, [(100, Why::Husk), (140, Why::Husk), (150, Why::Kin)]);
    assert_eq!(plan.place, Place::Stay);
}

#[test]
fn an_orphan_gets_a_parent_that_goes_and_a_session_leader_starts_from_init() {
    let plan = fresh(&person(200, 1, 200, 100), &[person(100, 1, 100, 100)]);
    assert_eq!(makes(&plan), [(100, 0, true, Place::Session), (-1, 100, true, Place::Stay)]);
    assert_eq!(plan.parent, STEP_PARENT);
    let own = fresh(&person(200, 100, 200, 200), &[person(100, 1, 100, 100)]);
    assert_eq!((own.parent, own.place), (Pid(100), Place::Session));
}

#[test]
fn a_parent_in_another_session_stands_in_its_own() {
    let kin = [person(100, 1, 100, 100), person(300, 100, 300, 300)];
    let plan = fresh(&person(400, 300, 400, 300), &kin);
    assert_eq!(makes(&plan), [(300, 0, true, Place::Session)]);
}

#[test]
fn a_child_of_a_body_of_this_node_is_refused() {
    let mut bodies = Bodies::default();
    bodies.add(person(100, 1, 100, 100));
    assert!(plan(&person(200, 100, 200, 100), false, &[], &Stands::default(), &bodies).is_err());
}

#[test]
fn a_shoal_run_of_this_node_is_refused() {
    let mut stands = Stands::default();
    let (shell, runner) = (person(100, 1, 100, 100), person(200, 100, 200, 100));
    stands.add(shell.clone(), Why::Kin, None, Pid::INIT);
    stands.add(runner.clone(), Why::Runner, None, Pid(100));
    assert!(plan(&runner, false, &[shell], &stands, &Bodies::default()).is_err());
}

#[test]
fn a_session_of_bodies_alone_cannot_be_joined() {
    let mut bodies = Bodies::default();
    bodies.add(person(2_000_000, 1, 150, 100));
    let kin = [person(180, 1, 150, 100)];
    let plan = plan(&person(200, 180, 150, 100), false, &kin, &Stands::default(), &bodies).expect("a plan");
    assert_eq!(makes(&plan), [(180, 0, true, Place::Lead)]);
    assert_eq!(plan.place, Place::Lead);
}

#[test]
fn a_handle_is_made_with_what_it_needs() {
    let planned = |kin: &[Person]| {
        let makes = plan_handle(&person(150, 130, 140, 100), kin, &Stands::default(), &Bodies::default());
        makes.iter().map(|m| (m.person.pid.0, m.maker.0, m.sibling, m.why)).collect::<Vec<_>>()
    };
    let alone = [(100, 0, true, Why::Husk), (140, 100, true, Why::Husk), (150, 100, false, Why::Handle)];
    assert_eq!(planned(&[]), alone);
    // Who lives stands there himself: a handle on him may be wanted, and he may come.
    let kin = [person(100, 1, 100, 100), person(130, 100, 140, 100), person(140, 100, 140, 100)];
    let all = [(100, 0, true, Why::Kin), (140, 100, false, Why::Kin), (130, 100, false, Why::Kin)];
    assert_eq!(planned(&kin), [&all[..], &[(150, 130, false, Why::Handle)]].concat());
}

#[test]
fn who_stands_keeps_its_parent_and_its_leaders() {
    let mut stands = Stands::default();
    let add = |stands: &mut Stands, one: Person, why, parent| stands.add(one, why, None, Pid(parent));
    add(&mut stands, person(100, 1, 100, 100), Why::Kin, 1);
    add(&mut stands, person(130, 100, 130, 100), Why::Kin, 100);
    add(&mut stands, person(140, 100, 140, 100), Why::Husk, 100);
    add(&mut stands, person(150, 130, 140, 100), Why::Kin, 130);
    let mut needed: Vec<_> = stands.needed().into_iter().map(|pid| pid.0).collect();
    needed.sort_unstable();
    assert_eq!(needed, [100, 130], "a husk goes at once");
}

#[test]
fn who_is_needed_as_another_s_child_does_not_come() {
    let mut stands = Stands::default();
    stands.add(person(100, 1, 100, 100), Why::Kin, None, Pid::INIT);
    stands.add(person(130, 100, 100, 100), Why::Kin, None, Pid(100));
    stands.add(person(150, 130, 150, 100), Why::Kin, None, Pid::INIT);
    let mut bodies = Bodies::default();
    let kin = [person(100, 1, 100, 100), person(130, 100, 100, 100)];
    let plan = |stands: &Stands, bodies: &Bodies| plan_arrival(&person(150, 130, 150, 100), &kin, stands, bodies);
    assert_eq!(plan(&stands, &bodies).map(|plan| plan.ends), Ok(vec![Pid(150)]), "it is made once more");
    bodies.add(person(160, 130, 150, 100));
    let fault = plan(&stands, &bodies).expect_err("its number is taken");
    assert!(fault.to_string().contains("others there need it"), "{fault}");
}

/// 150 has joined the group of its child 151.
#[test]
fn a_parent_in_its_childs_group_is_made_once() {
    let kin = [person(100, 1, 100, 100), person(150, 100, 151, 100), person(151, 150, 151, 100)];
    for wanted in [150, 151] {
        let (own, others): (Vec<_>, Vec<_>) = kin.iter().cloned().partition(|one| one.pid.0 == wanted);
        let makes = plan_handle(&own[0], &others, &Stands::default(), &Bodies::default());
        let mut made: Vec<_> = makes.iter().map(|make| make.person.pid.0).collect();
        made.sort_unstable();
        assert_eq!(made, [100, 150, 151], "{makes:?}");
    }
}

#[test]
fn a_parent_in_its_childs_group_and_that_child_do_not_come_where_neither_stands() {
    let kin = [person(100, 1, 100, 100), person(150, 100, 151, 100), person(151, 150, 151, 100)];
    for (comes, why) in [(150, "in the group that its child leads"), (151, "its parent 150 is in the group")] {
        let (own, others): (Vec<_>, Vec<_>) = kin.iter().cloned().partition(|one| one.pid.0 == comes);
        let fault = plan_arrival(&own[0], &others, &Stands::default(), &Bodies::default()).expect_err(why);
        assert!(fault.to_string().contains(why), "{fault}");
    }
}

#[test]
fn kin_in_a_circle_end() {
    let kin = [person(150, 151, 150, 100), person(151, 150, 151, 100)];
    assert!(fresh(&person(200, 150, 200, 100), &kin).makes.len() <= 4);
}

/// Parent 200, child 201, both on another node, and the shell 100.
fn family() -> [Person; 3] {
    [person(100, 1, 100, 100), person(200, 100, 200, 100), person(201, 200, 200, 100)]
}

#[test]
fn a_parent_that_comes_stands_first_and_makes_its_children() {
    let [shell, parent, child] = family();
    let (stands, bodies) = (Stands::default(), Bodies::default());
    let plan = plan_arrival(&parent, &[shell, child], &stands, &bodies).expect("a plan");
    let expected = [(100, 0, true, Place::Session), (200, 100, false, Place::Lead), (201, 200, false, Place::Stay)];
    assert_eq!(makes(&plan), expected);
    assert_eq!((plan.parent, plan.place, plan.ends), (Pid(200), Place::Stay, vec![]));
}

#[test]
fn a_parent_that_comes_back_to_its_children_becomes_what_stands_for_it() {
    let [shell, parent, child] = family();
    let (mut stands, mut bodies) = (Stands::default(), Bodies::default());
    stands.add(shell.clone(), Why::Kin, None, Pid::INIT);
    stands.add_in_place(parent.clone());
    bodies.add(child);
    let plan = plan_arrival(&parent, &[shell], &stands, &bodies).expect("a plan");
    assert_eq!((makes(&plan), plan.parent, plan.ends), (vec![], Pid(200), vec![]));
}

#[test]
fn what_stands_as_anothers_child_ends_first_unless_others_need_it_there() {
    let [shell, parent, child] = family();
    let (mut stands, mut bodies) = (Stands::default(), Bodies::default());
    stands.add(shell.clone(), Why::Kin, None, Pid::INIT);
    stands.add_in_place(parent.clone());
    stands.add(child.clone(), Why::Handle, None, Pid::INIT);
    let kin = [shell, child.clone()];
    let ends = |stands: &Stands, bodies: &Bodies, who: &Person, kin: &[Person]| {
        plan_arrival(who, kin, stands, bodies).map(|plan| plan.ends)
    };
    assert_eq!(ends(&stands, &bodies, &parent, &kin), Ok(vec![Pid(201)]));
    assert_eq!(ends(&stands, &bodies, &child, &kin[..1]), Ok(vec![Pid(201)]));
    bodies.add(person(202, 201, 200, 100));
    assert!(ends(&stands, &bodies, &parent, &kin).is_err());
}

#[test]
fn a_child_of_a_body_comes_only_to_where_it_is_that_ones_child() {
    let [shell, parent, child] = family();
    let (mut stands, mut bodies) = (Stands::default(), Bodies::default());
    stands.add(shell.clone(), Why::Kin, None, Pid::INIT);
    bodies.add(parent);
    let kin = [shell];
    assert!(plan_arrival(&child, &kin, &stands, &bodies).is_err());
    stands.add(child.clone(), Why::Kin, None, Pid(200));
    let plan = plan_arrival(&child, &kin, &stands, &bodies).expect("a plan");
    assert_eq!((makes(&plan), plan.parent), (vec![], Pid(201)));
}

#[test]
fn who_comes_with_a_child_that_leads_others_here_and_does_not_stand_is_refused_by_name() {
    let mut bodies = Bodies::default();
    bodies.add(person(201, 1, 200, 100));
    let kin = [person(200, 150, 200, 100), person(100, 1, 100, 100)];
    let mut stands = Stands::default();
    stands.add(person(100, 1, 100, 100), Why::Kin, None, Pid::INIT);
    let arrives = |bodies: &Bodies| plan_arrival(&person(150, 100, 100, 100), &kin, &stands, bodies);
    let refused = arrives(&bodies).map(|_| ()).expect_err("its number is taken").to_string();
    assert!(refused.contains("its child 200"), "{refused}");
    assert!(arrives(&Bodies::default()).is_ok());
}

#[test]
fn who_leads_a_group_or_session_here_gets_a_terminal_all_the_same() {
    let shell = person(100, 1, 100, 100);
    let start = |who: &Person, others: &[Person]| {
        let (mut stands, mut bodies) = (Stands::default(), Bodies::default());
        [&shell, who].into_iter().for_each(|one| stands.add(one.clone(), Why::Kin, None, Pid(one.ppid.0)));
        others.iter().for_each(|one| bodies.add(one.clone()));
        plan(who, true, std::slice::from_ref(&shell), &stands, &bodies)
            .map(|plan| (makes(&plan), plan.parent, plan.place))
    };
    let (leads_session, leads_group) = (person(200, 100, 200, 200), person(200, 100, 200, 100));
    let child_of = |leader: &Person| person(201, 200, 200, leader.sid.0);
    let there = |place| Ok((vec![], Pid(200), place));
    assert_eq!(start(&leads_session, &[child_of(&leads_session)]), there(Place::Stay));
    assert_eq!(start(&leads_group, &[]), there(Place::Join(Pid(100))));
    assert_eq!(start(&person(200, 100, 100, 100), &[]), there(Place::Session));
    let refused = start(&leads_group, &[child_of(&leads_group)]).expect_err("others are in it").to_string();
    assert!(refused.contains("leads the group of 201"), "{refused}");
}
