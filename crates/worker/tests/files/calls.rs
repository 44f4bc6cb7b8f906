//! Stat, MakeDir, Move, ListDir and Remove.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};

use http::StatusCode;
use serde_json::json;

use crate::harness::{Worker, at, text};

#[tokio::test]
async fn stat_describes_files_directories_and_links() {
    let worker = Worker::open().await;
    let dir = worker.home();
    std::fs::write(dir.join("file"), "hello").unwrap();
    std::fs::set_permissions(dir.join("file"), PermissionsExt::from_mode(0o4640)).unwrap();
    symlink("file", dir.join("link")).unwrap();
    symlink("nowhere", dir.join("dangling")).unwrap();

    let entry = worker.rpc("Stat", at(&dir.join("file"))).await.json()["entry"].clone();
    assert_eq!(entry["name"], "file");
    assert_eq!(entry["path"], text(&dir.join("file")));
    assert_eq!(entry["type"], "FILE_TYPE_FILE");
    assert_eq!(entry["size"], "5");
    assert_eq!(entry["mode"], 0o640);
    assert_eq!(entry["permissions"], "urw-r-----");
    assert!(
        entry["owner"].is_string()
            && entry["group"].is_string()
            && entry["modifiedTime"].is_string()
    );

    let entry = worker.rpc("Stat", at(&dir.join("link"))).await.json()["entry"].clone();
    assert_eq!(
        (&entry["type"], &entry["isSymlink"]),
        (&json!("FILE_TYPE_FILE"), &json!(true))
    );
    assert_eq!(entry["permissions"], "Lrwxrwxrwx");
    let real = dir.canonicalize().unwrap();
    assert_eq!(entry["symlinkTarget"], text(&real.join("file")));

    let entry = worker.rpc("Stat", at(&dir.join("dangling"))).await.json()["entry"].clone();
    assert_eq!(
        (&entry["type"], &entry["symlinkTarget"]),
        (&json!("FILE_TYPE_SYMLINK"), &json!("nowhere"))
    );

    worker
        .refused("Stat", at(&dir.join("none")), "not_found")
        .await;
}

#[tokio::test]
async fn relative_paths_and_the_home_are_resolved() {
    let worker = Worker::open().await;
    std::fs::write(worker.home().join("file"), "").unwrap();
    for path in ["~/file", "file", "./file", "~/./file//"] {
        let answer = worker.rpc("Stat", json!({"path": path})).await;
        assert_eq!(
            answer.json()["entry"]["path"],
            text(&worker.home().join("file")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn make_dir_makes_parents_and_tells_what_is_there_already() {
    let worker = Worker::open().await;
    let dir = worker.home().join("a/b/c");
    let made = worker.rpc("MakeDir", at(&dir)).await;
    assert_eq!(made.json()["entry"]["type"], "FILE_TYPE_DIRECTORY");
    assert!(dir.is_dir());
    worker.refused("MakeDir", at(&dir), "already_exists").await;
    std::fs::write(dir.join("file"), "").unwrap();
    worker
        .refused("MakeDir", at(&dir.join("file")), "invalid_argument")
        .await;
    worker
        .refused("MakeDir", at(&dir.join("file/below")), "invalid_argument")
        .await;
}

#[tokio::test]
async fn move_makes_parents_and_fails_without_a_source() {
    let worker = Worker::open().await;
    let dir = worker.home();
    std::fs::write(dir.join("one"), "content").unwrap();
    let to = dir.join("new/deep/two");
    let moved = worker
        .rpc(
            "Move",
            json!({"source": text(&dir.join("one")), "destination": text(&to)}),
        )
        .await;
    assert_eq!(moved.json()["entry"]["name"], "two");
    assert_eq!(std::fs::read_to_string(&to).unwrap(), "content");
    let again =
        json!({"source": text(&dir.join("one")), "destination": text(&dir.join("other/two"))});
    worker.refused("Move", again, "not_found").await;
    assert!(!dir.join("other").exists());
}

#[tokio::test]
async fn list_goes_as_deep_as_asked_and_not_through_links() {
    let worker = Worker::open().await;
    let dir = worker.home().join("list");
    std::fs::create_dir_all(dir.join("sub/deep")).unwrap();
    std::fs::write(dir.join("sub/deep/file"), "").unwrap();
    std::fs::write(dir.join("b"), "").unwrap();
    symlink("sub", dir.join("a")).unwrap();
    let paths = async |depth: u32| {
        let answer = worker
            .rpc("ListDir", json!({"path": text(&dir), "depth": depth}))
            .await
            .json();
        let entries = answer["entries"].as_array().unwrap().clone();
        entries
            .iter()
            .map(|entry| {
                entry["path"]
                    .as_str()
                    .unwrap()
                    .strip_prefix(text(&dir))
                    .unwrap()
                    .to_owned()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(0).await, ["/a", "/b", "/sub"]);
    assert_eq!(paths(1).await, ["/a", "/b", "/sub"]);
    assert_eq!(paths(2).await, ["/a", "/b", "/sub", "/sub/deep"]);
    assert_eq!(
        paths(9).await,
        ["/a", "/b", "/sub", "/sub/deep", "/sub/deep/file"]
    );
    worker
        .refused("ListDir", at(&dir.join("b")), "invalid_argument")
        .await;
    worker
        .refused("ListDir", at(&dir.join("none")), "not_found")
        .await;
    let empty = worker.rpc("ListDir", at(&dir.join("sub/deep"))).await;
    assert_eq!(empty.json()["entries"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn names_that_are_no_text_are_listed_and_can_be_used() {
    let worker = Worker::open().await;
    let dir = worker.home().join("names");
    std::fs::create_dir(&dir).unwrap();
    let names: [&[u8]; 4] = [b"new\nline", b"tab\t", b"\xff\xfe", "naïve 日本".as_bytes()];
    for name in names {
        std::fs::write(dir.join(OsStr::from_bytes(name)), "").unwrap();
    }
    let listed = worker.rpc("ListDir", at(&dir)).await.json();
    let listed = listed["entries"].as_array().unwrap();
    assert_eq!(listed.len(), names.len());
    for entry in listed {
        let removed = worker.rpc("Remove", json!({"path": entry["path"]})).await;
        assert_eq!(removed.status, StatusCode::OK);
    }
    assert_eq!(dir.read_dir().unwrap().count(), 0);
    worker
        .refused("Stat", json!({"path": "/a\u{0}b"}), "invalid_argument")
        .await;
}

#[tokio::test]
async fn remove_takes_whole_trees_twice_and_never_what_links_lead_to() {
    let worker = Worker::open().await;
    let dir = worker.home().join("tree");
    let outside = worker.home().join("outside");
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("precious"), "").unwrap();
    let mut deep = dir.clone();
    for _ in 0..1500 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    // More than are taken of a directory at once.
    for number in 0..3000 {
        std::fs::write(dir.join(format!("f{number}")), "").unwrap();
    }
    symlink(&outside, dir.join("link")).unwrap();
    for _ in 0..2 {
        assert_eq!(worker.rpc("Remove", at(&dir)).await.status, StatusCode::OK);
        assert!(!dir.exists());
    }
    assert!(outside.join("precious").exists());
    symlink(&outside, &dir).unwrap();
    assert_eq!(worker.rpc("Remove", at(&dir)).await.status, StatusCode::OK);
    assert!(outside.join("precious").exists());
    assert_eq!(
        worker
            .rpc("Remove", at(&worker.home().join("no/parent")))
            .await
            .status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn the_roots_hold_for_every_call() {
    let keep = tempfile::tempdir().unwrap();
    let top = keep.path().canonicalize().unwrap();
    for dir in ["ws", "ro", "out"] {
        std::fs::create_dir(top.join(dir)).unwrap();
        std::fs::write(top.join(dir).join("file"), dir).unwrap();
    }
    symlink(top.join("out"), top.join("ws/link")).unwrap();
    let worker = Worker::confined(&top.join("ws"), &top.join("ro")).await;
    for path in [
        "out/file",
        "ws/../out/file",
        "ws/link/file",
        "ro/../out/file",
    ] {
        let path = top.join(path);
        for method in ["Stat", "ListDir", "MakeDir", "Remove", "CreateWatcher"] {
            worker.refused(method, at(&path), "permission_denied").await;
        }
        let out = json!({"source": text(&top.join("ws/file")), "destination": text(&path)});
        worker.refused("Move", out, "permission_denied").await;
        let steal = json!({"source": text(&path), "destination": text(&top.join("ws/stolen"))});
        worker.refused("Move", steal, "permission_denied").await;
        let query = format!("path={}", text(&path));
        assert_eq!(
            worker.get(&format!("/files?{query}")).await.status,
            StatusCode::FORBIDDEN
        );
        assert_eq!(
            worker.put(text(&path), "x").await.status,
            StatusCode::FORBIDDEN
        );
        assert_eq!(
            worker.get(&format!("/ext/v1/tar?{query}")).await.status,
            StatusCode::FORBIDDEN
        );
    }
    // The link itself may be seen and removed; where it leads is not told.
    let link = worker.rpc("Stat", at(&top.join("ws/link"))).await.json()["entry"].clone();
    assert_eq!(link["type"], "FILE_TYPE_SYMLINK");
    assert_eq!(
        worker.rpc("Stat", at(&top.join("ro/file"))).await.status,
        StatusCode::OK
    );
    worker
        .refused("Remove", at(&top.join("ro/file")), "permission_denied")
        .await;
    worker
        .refused("Remove", at(&top.join("ws")), "invalid_argument")
        .await;
    assert_eq!(
        worker.put(text(&top.join("ro/new")), "x").await.status,
        StatusCode::FORBIDDEN
    );
    assert_eq!(
        std::fs::read_to_string(top.join("out/file")).unwrap(),
        "out"
    );
    assert_eq!(
        worker.rpc("Remove", at(&top.join("ws/link"))).await.status,
        StatusCode::OK
    );
    assert!(top.join("out/file").exists());
}

#[tokio::test]
async fn an_unknown_user_is_refused() {
    let worker = Worker::open().await;
    let nobody = [
        ("content-type", "application/json"),
        ("authorization", "Basic bm8tc3VjaC11c2VyOg=="),
    ];
    let path = "/filesystem.Filesystem/Stat";
    let answer = worker
        .call(http::Method::POST, path, &nobody, r#"{"path":"/"}"#)
        .await;
    assert_eq!(answer.json()["code"], "unauthenticated");
    assert_eq!(answer.json()["message"], "invalid username: 'no-such-user'");
    let answer = worker
        .get("/files?path=/etc/passwd&username=no-such-user")
        .await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
}
