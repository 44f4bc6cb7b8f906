//! Every rule of a layout, and all of them at once.

use namzu_types::{LayoutMount, SkillMount, ValueSource};

use super::*;

fn in_image(path: Option<&str>) -> LayoutMount {
    LayoutMount {
        source: MountSource::InImage,
        container_path: path.map(str::to_owned),
    }
}

fn skill(id: &str) -> SkillMount {
    SkillMount {
        id: id.to_owned(),
        source: MountSource::InImage,
        container_path: None,
    }
}

/// A layout with every mount, all from the image.
fn full() -> ContainerSandboxLayout {
    ContainerSandboxLayout {
        outputs: Some(in_image(None)),
        uploads: Some(in_image(None)),
        scratch: Some(in_image(None)),
        tool_results: Some(in_image(None)),
        skills: vec![skill("pdf"), skill("a.b_c-D9")],
        transcripts: Some(in_image(None)),
    }
}

fn reasons(layout: &ContainerSandboxLayout) -> Vec<String> {
    let err = ValidLayout::new(layout).unwrap_err();
    assert_eq!(err.code(), ErrorCode::LayoutInvalid);
    err.reasons().to_vec()
}

#[test]
fn every_mount_has_its_default_path_and_mode() {
    let layout = ValidLayout::new(&full()).unwrap();
    let found: Vec<(&str, &str, Access)> = layout
        .mounts()
        .iter()
        .map(|mount| (&*mount.name, &*mount.container_path, mount.access))
        .collect();
    let (ro, rw) = (Access::ReadOnly, Access::ReadWrite);
    assert_eq!(
        found,
        [
            ("outputs", "/mnt/user-data/outputs", rw),
            ("scratch", "/mnt/user-data/scratch", rw),
            ("uploads", "/mnt/user-data/uploads", ro),
            ("toolResults", "/mnt/user-data/tool_results", ro),
            ("transcripts", "/mnt/transcripts", ro),
            ("skills[pdf]", "/mnt/skills/pdf", ro),
            ("skills[a.b_c-D9]", "/mnt/skills/a.b_c-D9", ro),
        ]
    );
    assert_eq!(layout.workspace(), "/mnt/user-data/outputs");
}

#[test]
fn the_workspace_is_where_outputs_are() {
    let mut layout = full();
    layout.outputs = Some(in_image(Some("/data/out")));
    assert_eq!(ValidLayout::new(&layout).unwrap().workspace(), "/data/out");
}

#[test]
fn every_violation_is_reported_at_once() {
    let mut layout = full();
    layout.outputs = None;
    layout.uploads = Some(in_image(Some("relative/path")));
    layout.scratch = Some(LayoutMount {
        source: MountSource::HostDir {
            host_path: "/nonexistent/scratch".to_owned(),
        },
        container_path: Some("/mnt/x".to_owned()),
    });
    layout.tool_results = Some(in_image(Some("/mnt/x")));
    layout.transcripts = Some(in_image(Some("/mnt/x/y")));
    layout.skills = vec![skill("pdf"), skill("pdf"), skill("../etc")];
    let found = reasons(&layout);
    let wanted = [
        "`outputs`: is missing",
        "`uploads.containerPath`: `relative/path` is not absolute",
        "`scratch.source.hostPath`: `/nonexistent/scratch` does not exist",
        "`toolResults.containerPath`: `/mnt/x` is `scratch`'s path too",
        "`transcripts.containerPath`: `/mnt/x/y` lies inside `scratch`'s path",
        "`transcripts.containerPath`: `/mnt/x/y` lies inside `toolResults`'s path",
        "`skills[1].id`: `pdf` is there already",
        "`skills[pdf].containerPath`: `/mnt/skills/pdf` is `skills[pdf]`'s path too",
        "`skills[2].id`: `../etc` is no skill id",
        "`skills[../etc].containerPath`: `/mnt/skills/../etc` is not in its plain form",
    ];
    for reason in wanted {
        assert!(
            found.iter().any(|one| one.starts_with(reason)),
            "{reason} is not in {found:#?}"
        );
    }
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
}

#[test]
fn no_skill_id_leaves_the_skills() {
    for id in [
        "", ".", "..", "a..b", "a/b", "/etc", "a b", "é", "a\n", "a\0b",
    ] {
        let mut layout = full();
        layout.skills = vec![skill(id)];
        let found = reasons(&layout);
        assert!(found[0].starts_with("`skills[0].id`"), "{id:?}: {found:?}");
    }
}

#[test]
fn no_mount_hides_the_system() {
    let paths = [
        "/",
        "/etc",
        "/etc/ssl",
        "/usr",
        "/usr/local/bin",
        "/proc",
        "/proc/self",
        "/sys",
        "/dev/shm",
        "/lib64",
        "/run/secrets",
        "/var/run/docker.sock",
        "/var",
        "/bin",
        "/sbin",
    ];
    for path in paths {
        let mut layout = full();
        layout.uploads = Some(in_image(Some(path)));
        assert_eq!(reasons(&layout).len(), 1, "{path}");
    }
    // Names that only begin alike.
    for path in ["/etcetera", "/users", "/binaries/x", "/variable"] {
        let mut layout = full();
        layout.uploads = Some(in_image(Some(path)));
        ValidLayout::new(&layout).unwrap();
    }
}

#[test]
fn no_second_spelling_hides_an_overlap() {
    let paths = [
        "//mnt/a",
        "/mnt//a",
        "/mnt/a/",
        "/mnt/./a",
        "/mnt/b/../a",
        "/mnt/a\n",
        "/mnt/\0a",
        "",
        ".",
        "mnt/a",
    ];
    for path in paths {
        let mut layout = full();
        layout.uploads = Some(in_image(Some(path)));
        assert_eq!(reasons(&layout).len(), 1, "{path:?}");
    }
}

#[test]
fn a_mount_that_holds_anothers_path_is_refused_whatever_the_order() {
    let mut layout = full();
    layout.transcripts = Some(in_image(Some("/mnt/skills")));
    let found = reasons(&layout);
    assert_eq!(found.len(), 2, "{found:#?}");
    layout = full();
    layout.uploads = Some(in_image(Some("/mnt/user-data")));
    let found = reasons(&layout);
    assert_eq!(found.len(), 3, "{found:#?}");
}

#[test]
fn a_host_directory_must_be_there_and_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let with =
        |path: &Path| ContainerSandboxLayout::with_outputs(path.to_str().expect("a plain path"));
    ValidLayout::new(&with(folder.path())).unwrap();
    for path in [
        file.as_path(),
        Path::new("relative"),
        Path::new("/nonexistent"),
    ] {
        assert_eq!(reasons(&with(path)).len(), 1, "{}", path.display());
    }
}

#[test]
fn a_reason_never_shows_a_key() {
    let mut layout = full();
    layout.uploads = Some(LayoutMount {
        source: MountSource::AzureFileShare {
            storage_account_name: "a".to_owned(),
            share_name: "s".to_owned(),
            storage_account_key: ValueSource::Value(namzu_types::Secret::new("s3cret")),
        },
        container_path: Some("/etc".to_owned()),
    });
    let err = ValidLayout::new(&layout).unwrap_err();
    assert!(!format!("{err:?} {err}").contains("s3cret"));
}
