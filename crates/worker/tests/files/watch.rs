//! WatchDir and the polled watchers.

use http::StatusCode;
use serde_json::{Value, json};

use crate::harness::{Messages, Worker, at, change, text};

fn pair(name: &str, kind: &str) -> (String, String) {
    (name.into(), kind.into())
}

async fn watch(worker: &Worker, path: &str, more: Value) -> Messages {
    let mut message = json!({"path": path});
    message
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let mut stream = worker.stream("WatchDir", message).await;
    assert_eq!(stream.next().await, (0, json!({"start": {}})));
    stream
}

#[tokio::test]
async fn an_upload_is_seen_as_create_chmod_write() {
    let worker = Worker::open().await;
    std::fs::create_dir(worker.home().join("dir")).unwrap();
    let mut stream = watch(&worker, "dir", json!({})).await;
    worker.put("dir/file", "content").await;
    for kind in ["CREATE", "CHMOD", "WRITE"] {
        assert_eq!(stream.change().await, pair("file", kind));
    }
    // Nothing else came of it: the next event is the next deed's.
    worker
        .rpc("Remove", at(&worker.home().join("dir/file")))
        .await;
    assert_eq!(stream.change().await, pair("file", "REMOVE"));
}

#[tokio::test]
async fn moves_and_new_directories_are_told() {
    let worker = Worker::open().await;
    let dir = worker.home().join("dir");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("a"), "").unwrap();
    let mut stream = watch(&worker, "dir", json!({})).await;
    std::fs::rename(dir.join("a"), dir.join("b")).unwrap();
    assert_eq!(stream.change().await, pair("a", "RENAME"));
    assert_eq!(stream.change().await, pair("b", "CREATE"));
    std::fs::create_dir(dir.join("sub")).unwrap();
    assert_eq!(stream.change().await, pair("sub", "CREATE"));
    // Not recursive: what happens below is not told.
    std::fs::write(dir.join("sub/file"), "").unwrap();
    std::fs::remove_file(dir.join("b")).unwrap();
    assert_eq!(stream.change().await, pair("b", "REMOVE"));
}

#[tokio::test]
async fn a_recursive_watch_picks_up_new_directories() {
    let worker = Worker::open().await;
    let dir = worker.home().join("dir");
    std::fs::create_dir_all(dir.join("old")).unwrap();
    let mut stream = watch(&worker, "dir", json!({"recursive": true})).await;
    std::fs::create_dir(dir.join("old/inner")).unwrap();
    assert_eq!(stream.change().await, pair("old/inner", "CREATE"));
    // Made faster than they can be watched: still told, each once.
    std::fs::create_dir_all(dir.join("n1/n2/n3")).unwrap();
    std::fs::write(dir.join("n1/n2/n3/file"), "x").unwrap();
    let mut created = Vec::new();
    while !created.contains(&"n1/n2/n3/file".to_owned()) {
        let (name, kind) = stream.change().await;
        if kind == "CREATE" {
            created.push(name);
        }
    }
    assert_eq!(created, ["n1", "n1/n2", "n1/n2/n3", "n1/n2/n3/file"]);
    // A directory that moves within is followed, one that moves out is not.
    std::fs::rename(dir.join("n1/n2"), dir.join("moved")).unwrap();
    loop {
        if stream.change().await == pair("moved", "CREATE") {
            break;
        }
    }
    std::fs::write(dir.join("moved/n3/late"), "").unwrap();
    assert_eq!(stream.change().await, pair("moved/n3/late", "CREATE"));
    std::fs::rename(dir.join("moved"), worker.home().join("gone")).unwrap();
    assert_eq!(stream.change().await, pair("moved", "RENAME"));
    std::fs::write(worker.home().join("gone/n3/unseen"), "").unwrap();
    std::fs::write(dir.join("seen"), "").unwrap();
    assert_eq!(stream.change().await, pair("seen", "CREATE"));
}

#[tokio::test]
async fn entries_are_sent_when_asked_for() {
    let worker = Worker::open().await;
    std::fs::create_dir(worker.home().join("dir")).unwrap();
    let mut stream = watch(&worker, "dir", json!({"includeEntry": true})).await;
    std::fs::create_dir(worker.home().join("dir/sub")).unwrap();
    let (_, message) = stream.next().await;
    let entry = &message["filesystem"]["entry"];
    assert_eq!(entry["type"], "FILE_TYPE_DIRECTORY");
    assert_eq!(entry["path"], text(&worker.home().join("dir/sub")));
}

#[tokio::test]
async fn the_end_of_the_directory_is_told() {
    let worker = Worker::open().await;
    let dir = worker.home().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let mut stream = watch(&worker, "dir", json!({"recursive": true})).await;
    std::fs::remove_dir(&dir).unwrap();
    assert_eq!(stream.change().await, pair(".", "REMOVE"));
}

#[tokio::test]
async fn what_cannot_be_watched_is_refused() {
    let worker = Worker::open().await;
    std::fs::write(worker.home().join("file"), "").unwrap();
    for (path, code) in [("none", "not_found"), ("file", "invalid_argument")] {
        let mut stream = worker.stream("WatchDir", json!({"path": path})).await;
        let (flag, end) = stream.next().await;
        assert_eq!((flag, &end["error"]["code"]), (2, &json!(code)));
        worker
            .refused("CreateWatcher", json!({"path": path}), code)
            .await;
    }
    worker
        .refused("GetWatcherEvents", json!({"watcherId": "w"}), "not_found")
        .await;
    worker
        .refused("RemoveWatcher", json!({"watcherId": "w"}), "not_found")
        .await;
}

#[tokio::test]
async fn a_polled_watcher_keeps_what_happened() {
    let worker = Worker::open().await;
    let dir = worker.home().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let made = worker
        .rpc(
            "CreateWatcher",
            json!({"path": text(&dir), "recursive": true}),
        )
        .await
        .json();
    let id = json!({"watcherId": made["watcherId"]});
    worker.put("dir/sub/file", "content").await;
    let mut seen = Vec::new();
    while !seen.contains(&pair("sub/file", "WRITE")) {
        let answer = worker.rpc("GetWatcherEvents", id.clone()).await;
        assert_eq!(answer.status, StatusCode::OK, "{:?}", answer.body);
        seen.extend(
            answer.json()["events"]
                .as_array()
                .into_iter()
                .flatten()
                .map(change),
        );
    }
    assert_eq!(seen[0], pair("sub", "CREATE"));
    assert_eq!(
        worker.rpc("RemoveWatcher", id.clone()).await.status,
        StatusCode::OK
    );
    worker.refused("GetWatcherEvents", id, "not_found").await;
}

#[tokio::test]
async fn events_that_were_lost_are_told_as_lost() {
    let worker = Worker::open().await;
    let dir = worker.home().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let made = worker.rpc("CreateWatcher", at(&dir)).await.json();
    let id = json!({"watcherId": made["watcherId"]});
    // More than the watcher and the kernel's queue hold together.
    for number in 0..60_000 {
        let name = dir.join(format!("f{}", number % 2));
        std::fs::write(&name, "").unwrap();
        std::fs::remove_file(&name).unwrap();
    }
    let mut answer = worker.rpc("GetWatcherEvents", id.clone()).await;
    let mut taken = 0;
    while answer.status == StatusCode::OK {
        taken += answer.json()["events"].as_array().map_or(0, Vec::len);
        assert!(taken < 120_000, "nothing was lost after all");
        answer = worker.rpc("GetWatcherEvents", id.clone()).await;
    }
    assert_eq!(answer.json()["code"], "resource_exhausted");
    // And it goes on.
    std::fs::write(dir.join("last"), "").unwrap();
    loop {
        let answer = worker.rpc("GetWatcherEvents", id.clone()).await.json();
        if answer["events"]
            .as_array()
            .into_iter()
            .flatten()
            .any(|event| event["name"] == "last")
        {
            break;
        }
    }
}

#[tokio::test]
async fn the_number_of_watchers_is_bounded() {
    let worker = Worker::open().await;
    let mut made = 0;
    let refused = loop {
        let answer = worker.rpc("CreateWatcher", at(worker.home())).await;
        if answer.status != StatusCode::OK {
            break answer;
        }
        made += 1;
        assert!(made <= 64);
    };
    assert_eq!(refused.json()["code"], "resource_exhausted");
}

#[tokio::test]
async fn a_name_is_told_as_it_is_whatever_it_holds() {
    let worker = Worker::open().await;
    let dir = worker.home().join("dir");
    std::fs::create_dir(&dir).unwrap();
    let mut stream = watch(&worker, "dir", json!({})).await;
    let name = "a\nb\r\"\\\u{1b}[2J\u{2028}";
    std::fs::create_dir(dir.join(name)).unwrap();
    assert_eq!(stream.change().await, pair(name, "CREATE"));
    let longest = "n".repeat(255);
    std::fs::create_dir(dir.join(&longest)).unwrap();
    assert_eq!(stream.change().await, pair(&longest, "CREATE"));
}
