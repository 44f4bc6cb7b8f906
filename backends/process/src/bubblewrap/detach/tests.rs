//! Names are given to one, taken from the dead only, and nobody else is killed.

use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

use super::*;

fn state() -> (TempDir, StateDir) {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::at(dir.path().join("state")).unwrap();
    (dir, state)
}

fn janitor() -> Arc<Janitor> {
    // `grep janitor` reads its input to the end, as a janitor does.
    Janitor::new(File::open("/usr/bin/grep").unwrap().into())
}

fn id(text: &str) -> SandboxId {
    text.parse().unwrap()
}

async fn add(state: &StateDir, name: &str, janitor: &Arc<Janitor>) -> Result<Entry, Error> {
    let (spec, controls) = (SandboxSpec::default(), Controls::default());
    state.add(&id(name), &spec, &controls, None, janitor).await
}

/// Writes down that `name` runs as `process`.
fn write(state: &StateDir, name: &str, process: serde_json::Value, made: bool) {
    let record = Record {
        process: serde_json::from_value(process).unwrap(),
        made,
        created_unix_ms: 0,
        expires_unix_ms: None,
        labels: [].into(),
        egress: None,
        controls: Controls::default(),
        cgroups: Vec::new(),
    };
    let dir = state.0.join(name);
    fs::create_dir(&dir).unwrap();
    record.write(&dir).unwrap();
}

fn names(state: &StateDir) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(&state.0)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".lock")
        .collect();
    names.sort();
    names
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(StateDir::at(open).is_err());
    let link = dir.path().join("link");
    let target = dir.path().join("target");
    fs::DirBuilder::new().mode(0o700).create(&target).unwrap();
    symlink(&target, &link).unwrap();
    assert!(StateDir::at(link).is_err());
    StateDir::at(target).unwrap();
    StateDir::at(dir.path().join("new")).unwrap();
}

#[tokio::test]
async fn a_stranger_is_not_killed() {
    let (_dir, state) = state();
    let mut stranger = namzu_core::spawn::command("/bin/sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let mut process =
        serde_json::to_value(ProcessName::of(stranger.id().unwrap()).unwrap()).unwrap();
    process["namespace"] = 1.into();
    write(&state, "foreign", process.clone(), true);
    let refused = state.destroy(&id("foreign"), None).await;
    assert!(matches!(refused, Err(Error::Foreign(_))), "{refused:?}");
    assert_eq!(state.list().await.unwrap().len(), 1);
    let refused = add(&state, "foreign", &janitor()).await;
    assert!(matches!(refused, Err(Error::Exists(_))), "{refused:?}");
    assert_eq!(names(&state), ["foreign"]);

    // The PID of one that is dead has gone to another, here.
    process["namespace"] =
        serde_json::to_value(ProcessName::own().unwrap()).unwrap()["namespace"].clone();
    process["started"] = 1.into();
    write(&state, "dead", process, true);
    state.destroy(&id("dead"), None).await.unwrap();
    assert_eq!(names(&state), ["foreign"]);
    assert!(stranger.try_wait().unwrap().is_none());
    stranger.kill().await.unwrap();
}

#[tokio::test]
async fn only_the_one_that_was_attached_to_is_destroyed() {
    let (_dir, state) = state();
    let mut successor = namzu_core::spawn::command("/bin/sleep")
        .arg("1000")
        .spawn()
        .unwrap();
    let process = ProcessName::of(successor.id().unwrap()).unwrap();
    write(&state, "name", serde_json::to_value(process).unwrap(), true);
    let predecessor = ProcessName::own();
    state.destroy(&id("name"), predecessor).await.unwrap();
    assert!(successor.try_wait().unwrap().is_none());
    assert_eq!(names(&state), ["name"]);
    state.destroy(&id("name"), Some(process)).await.unwrap();
    assert_eq!(names(&state), [""; 0]);
    successor.wait().await.unwrap();
}

#[tokio::test]
async fn rubbish_holds_no_name() {
    let (_dir, state) = state();
    let janitor = janitor();
    let litter = || {
        fs::create_dir(state.0.join("empty")).unwrap();
        fs::create_dir(state.0.join("cut-off")).unwrap();
        fs::write(state.0.join("cut-off/sandbox.json"), "{\"process\":").unwrap();
        fs::create_dir_all(state.0.join("odd/sandbox.json")).unwrap();
        fs::write(state.0.join("file"), "").unwrap();
    };
    litter();
    state.list().await.unwrap();
    assert_eq!(names(&state), [""; 0], "by listing");
    litter();
    for name in ["empty", "cut-off", "odd", "file"] {
        state.destroy(&id(name), None).await.unwrap();
    }
    assert_eq!(names(&state), [""; 0], "by destroying");
    litter();
    for name in ["empty", "cut-off", "odd", "file"] {
        drop(add(&state, name, &janitor).await.unwrap());
    }
    assert_eq!(names(&state), [""; 0], "by making");
    litter();
    for name in ["empty", "cut-off", "odd", "file"] {
        let refused = state.running(&id(name)).await;
        assert!(matches!(refused, Err(Error::NotFound(_))), "{refused:?}");
    }
    assert_eq!(names(&state), [""; 0], "by attaching");
}

#[tokio::test]
async fn what_a_dead_maker_was_filling_is_removed() {
    let (_dir, state) = state();
    let own = ProcessName::own().unwrap();
    let mut dead = serde_json::to_value(own).unwrap();
    dead["started"] = 1.into();
    let dead: ProcessName = serde_json::from_value(dead).unwrap();
    let ours = format!("{UNFINISHED}{}-a", own.label());
    for name in [&ours, &format!("{UNFINISHED}{}-a", dead.label())] {
        fs::create_dir(state.0.join(name)).unwrap();
    }
    assert!(state.list().await.unwrap().is_empty());
    assert_eq!(names(&state), [ours]);
}

#[tokio::test]
async fn a_name_is_given_to_one_of_many() {
    let (_dir, state) = state();
    let (state, janitor) = (Arc::new(state), janitor());
    // One that ended had it before.
    let mut dead = serde_json::to_value(ProcessName::own().unwrap()).unwrap();
    dead["started"] = 1.into();
    write(&state, "name", dead, true);
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (state, janitor) = (Arc::clone(&state), Arc::clone(&janitor));
        all.spawn(async move { add(&state, "name", &janitor).await });
    }
    let (given, refused): (Vec<_>, Vec<_>) =
        all.join_all().await.into_iter().partition(Result::is_ok);
    assert_eq!((given.len(), refused.len()), (1, 31), "{refused:?}");
    assert_eq!(names(&state), ["name"]);
    drop(given);
    assert_eq!(names(&state), [""; 0]);
}

#[tokio::test]
async fn an_entry_removes_itself_and_no_successor() {
    let (_dir, state) = state();
    let janitor = janitor();
    let mut first = add(&state, "name", &janitor).await.unwrap();
    first.release();
    remove_dir(&state.0.join("name")).unwrap();
    let second = add(&state, "name", &janitor).await.unwrap();
    first.reclaim();
    drop(first);
    assert_eq!(names(&state), ["name"]);
    second.remove().unwrap();
    assert_eq!(names(&state), [""; 0]);
}

#[tokio::test]
async fn a_record_that_could_not_be_read_again_is_not_written() {
    let (_dir, state) = state();
    let mut spec = SandboxSpec::default();
    spec.labels.insert("long".to_owned(), "x".repeat(1 << 20));
    let controls = Controls::default();
    let refused = state
        .add(&id("name"), &spec, &controls, None, &janitor())
        .await;
    assert!(matches!(refused, Err(Error::State { .. })), "{refused:?}");
    assert_eq!(names(&state), [""; 0]);
}
