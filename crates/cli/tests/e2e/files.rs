//! `cp` and `ls ID:PATH`, with the sandbox as the enemy.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use crate::Case;
use crate::cli::{Cli, Running};
use crate::detached::Detached;

pub(crate) const CASES: &[Case] = &[
    ("a_file_goes_in_and_out_with_its_mode", file),
    ("a_directory_goes_in_and_out", directory),
    ("standard_streams_can_be_copied", standard),
    ("a_copy_lands_where_cp_would_put_it", places),
    ("a_hostile_tree_harms_nothing_and_is_reported", hostile),
    (
        "a_symlink_of_the_host_is_refused_unless_followed",
        host_link,
    ),
    (
        "a_symlink_of_the_host_is_refused_whatever_follows_its_name",
        host_link_end,
    ),
    ("a_pipe_in_place_of_a_file_holds_nothing_up", host_pipe),
    (
        "a_pipe_in_place_of_a_destination_holds_nothing_up",
        host_pipe_destination,
    ),
    ("max_size_holds_for_standard_output", max_size_standard),
    ("a_copy_that_nobody_reads_ends_quietly", unread),
    ("standard_output_may_be_non_blocking", non_blocking),
    ("more_than_max_size_leaves_no_file", max_size),
    ("a_failed_copy_keeps_what_was_there", kept),
    ("holes_stay_holes", holes),
    ("a_tree_that_is_too_deep_is_refused_and_says_so", deep),
    ("a_listing_shows_names_and_json_escapes_them", listing),
];

fn file(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    let data: Vec<u8> = (0..5_000_000_u32).map(|n| (n % 253) as u8).collect();
    fs::write(cli.path("f"), &data).unwrap();
    cli.run(&["cp", "f", &sandbox.at("sub/f")]).ends(0);
    sandbox.sh("chmod 750 sub/f").ends(0);
    cli.run(&["cp", &sandbox.at("sub/f"), "back"]).ends(0);
    assert!(fs::read(cli.path("back")).unwrap() == data);
    let mode = cli.path("back").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
}

fn directory(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    fs::create_dir_all(cli.path("tree/a b/c")).unwrap();
    fs::write(cli.path("tree/a b/c/f\n"), "deep").unwrap();
    fs::write(cli.path("tree/empty"), "").unwrap();
    symlink("a b/c", cli.path("tree/link")).unwrap();
    cli.run(&["cp", "tree", &sandbox.at("copy")]).ends(0);
    assert_eq!(
        sandbox
            .sh("cat copy/link/f*; readlink copy/link")
            .ends(0)
            .text(),
        "deepa b/c\n"
    );
    cli.run(&["cp", &sandbox.at("copy"), "back"]).ends(0);
    assert_eq!(
        fs::read_to_string(cli.path("back/a b/c/f\n")).unwrap(),
        "deep"
    );
    assert_eq!(
        fs::read_link(cli.path("back/link")).unwrap().to_str(),
        Some("a b/c")
    );
}

fn standard(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    let mut unreadable = cli.command(&["cp", "-", &sandbox.at("none")]);
    Running::start(unreadable.stdin(fs::File::open("/").unwrap()))
        .finish()
        .ends(200);
    cli.feed(&["cp", "-", &sandbox.at("f")], b"a\0b\xff")
        .ends(0);
    assert_eq!(
        cli.run(&["cp", &sandbox.at("f"), "-"]).ends(0).stdout,
        b"a\0b\xff"
    );
}

fn places(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    fs::write(cli.path("f"), "x").unwrap();
    fs::create_dir(cli.path("into")).unwrap();
    sandbox.sh("mkdir d; echo y > g").ends(0);
    cli.run(&["cp", "f", &sandbox.at("d")]).ends(0);
    cli.run(&["cp", "f", &sandbox.at("new/")]).ends(0);
    assert_eq!(sandbox.sh("cat d/f new/f").ends(0).text(), "xx");
    cli.run(&["cp", &sandbox.at("g"), "into"]).ends(0);
    cli.run(&["cp", &sandbox.at("d"), "into"]).ends(0);
    cli.run(&["cp", &sandbox.at("d/."), "into"]).ends(0);
    for name in ["into/g", "into/d/f", "into/f"] {
        assert!(cli.path(name).exists(), "{name}");
    }
    cli.run(&["cp", "f", "g"]).ends(2);
    cli.run(&["cp", &sandbox.at("f"), &sandbox.at("g")]).ends(2);
}

fn hostile(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    fs::write(cli.path("victim"), "safe").unwrap();
    sandbox
        .sh("mkdir -p t/d; cd t; echo good > f; ln -s ../victim out; ln -s / root; ln -s ../../.. d/up
             mkfifo pipe; cp f su; chmod 4755 su; ln -s f fine")
        .ends(0);
    let out = cli.run(&["cp", &sandbox.at("t"), "t"]).ends(207);
    for name in ["out", "root", "d/up", "su", "pipe"] {
        assert!(
            out.stderr.contains(&format!("`{name}`")),
            "{name}: {}",
            out.stderr
        );
        assert!(
            cli.path(&format!("t/{name}")).symlink_metadata().is_err(),
            "{name}"
        );
    }
    assert_eq!(fs::read_to_string(cli.path("t/fine")).unwrap(), "good\n");
    assert_eq!(fs::read_to_string(cli.path("victim")).unwrap(), "safe");
}

fn host_link(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    fs::write(cli.path("victim"), "safe").unwrap();
    symlink("victim", cli.path("link")).unwrap();
    sandbox.sh("echo evil > f").ends(0);
    cli.run(&["cp", &sandbox.at("f"), "link"]).ends(207);
    cli.run(&["cp", "link", &sandbox.at("g")]).ends(207);
    assert_eq!(fs::read_to_string(cli.path("victim")).unwrap(), "safe");
    cli.run(&["cp", "-L", "link", &sandbox.at("g")]).ends(0);
    assert_eq!(sandbox.sh("cat g").ends(0).text(), "safe");
    cli.run(&["cp", "-L", &sandbox.at("f"), "link"]).ends(0);
    assert_eq!(fs::read_to_string(cli.path("victim")).unwrap(), "evil\n");
    assert!(cli.path("link").symlink_metadata().unwrap().is_symlink());
}

fn host_pipe(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    let dir = fs::File::open(cli.dir.path()).unwrap();
    rustix::fs::mkfifoat(&dir, "pipe", rustix::fs::Mode::RUSR).unwrap();
    let out = cli.run(&["cp", "pipe", &sandbox.at("f")]).ends(201);
    assert!(
        out.stderr.contains("neither file nor directory"),
        "{}",
        out.stderr
    );
}

fn names(cli: &Cli) -> Vec<String> {
    let entries = fs::read_dir(cli.dir.path()).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn host_link_end(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    fs::create_dir(cli.path("victim")).unwrap();
    fs::write(cli.path("victim/secret"), "safe").unwrap();
    symlink("victim", cli.path("link")).unwrap();
    sandbox
        .sh("echo evil > f; mkdir d; echo evil > d/secret")
        .ends(0);
    for end in ["/", "/.", "//.//"] {
        let link = format!("link{end}");
        let absolute = cli.path(&link).display().to_string();
        for link in [link, absolute] {
            for from in ["f", "d", "d/."] {
                cli.run(&["cp", &sandbox.at(from), &link]).ends(207);
            }
            cli.run(&["cp", &link, &sandbox.at("copy")]).ends(207);
        }
    }
    cli.run(&["cp", &sandbox.at("f"), "link/secret"]).ends(207);
    cli.run(&["cp", "link/secret", &sandbox.at("copy")])
        .ends(207);
    cli.run(&["run", "--report", "link/secret", "--", "true"])
        .ends(207);
    sandbox.sh("test ! -e copy").ends(0);
    assert_eq!(
        fs::read_to_string(cli.path("victim/secret")).unwrap(),
        "safe"
    );
    assert_eq!(fs::read_dir(cli.path("victim")).unwrap().count(), 1);
    cli.run(&["cp", "-L", "link/", &sandbox.at("copy")]).ends(0);
    cli.run(&["cp", "-L", &sandbox.at("f"), "link/"]).ends(0);
    assert!(cli.path("victim/f").exists());
}

fn host_pipe_destination(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox.sh("echo data > f").ends(0);
    let dir = fs::File::open(cli.dir.path()).unwrap();
    rustix::fs::mkfifoat(&dir, "pipe", rustix::fs::Mode::RWXU).unwrap();
    let out = cli.run(&["cp", &sandbox.at("f"), "pipe"]).ends(207);
    assert!(
        out.stderr.contains("neither file nor directory"),
        "{}",
        out.stderr
    );
    // Nobody reads it.
    cli.run(&["cp", "-L", &sandbox.at("f"), "pipe"]).ends(200);
    cli.run(&["exec", &sandbox.id, "--report", "pipe", "--", "true"])
        .ends(207);
    let reader = fs::File::options()
        .read(true)
        .write(true)
        .open(cli.path("pipe"));
    let mut reader = reader.unwrap();
    cli.run(&["exec", &sandbox.id, "--report", "pipe", "--", "true"])
        .ends(207);
    cli.run(&["cp", "-L", &sandbox.at("f"), "pipe"]).ends(0);
    let mut data = [0; 5];
    reader.read_exact(&mut data).unwrap();
    assert_eq!(&data, b"data\n");
    cli.run(&["cp", &sandbox.at("f"), "/dev/null"]).ends(0);
}

fn max_size_standard(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox.sh("head -c 100000 /dev/zero > f").ends(0);
    let out = cli
        .run(&["cp", "--max-size", "64k", &sandbox.at("f"), "-"])
        .ends(201);
    assert!(out.stdout.is_empty());
    let out = cli
        .run(&["cp", "--max-size", "100000", &sandbox.at("f"), "-"])
        .ends(0);
    assert_eq!(out.stdout.len(), 100_000);
}

fn unread(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox.sh("head -c 1000000 /dev/zero > f").ends(0);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out = cli
        .command(&["cp", &sandbox.at("f"), "-"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(141));
    assert_eq!(out.stderr, b"");
}

fn non_blocking(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox.sh("head -c 1000000 /dev/zero > f").ends(0);
    let (mut reader, writer) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&writer, true).unwrap();
    let mut command = cli.command(&["cp", &sandbox.at("f"), "-"]);
    let mut child = command.stdout(writer).spawn().unwrap();
    // The command holds the pipe open as well.
    drop(command);
    let mut data = Vec::new();
    reader.read_to_end(&mut data).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(data.len(), 1_000_000);
}

fn max_size(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox
        .sh("head -c 100000 /dev/zero > f; mkdir d; cp f d")
        .ends(0);
    cli.run(&["cp", "--max-size", "64k", &sandbox.at("f"), "f"])
        .ends(201);
    assert!(names(cli).is_empty(), "{:?}", names(cli));
    cli.run(&["cp", "--max-size", "64k", &sandbox.at("d"), "d"])
        .ends(201);
    assert_eq!(fs::read_dir(cli.path("d")).unwrap().count(), 0);
}

fn kept(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    fs::write(cli.path("f"), "kept").unwrap();
    cli.run(&["cp", &sandbox.at("no-such"), "f"]).ends(205);
    cli.run(&["cp", "no-such", &sandbox.at("f")]).ends(205);
    assert_eq!(fs::read_to_string(cli.path("f")).unwrap(), "kept");
    assert_eq!(names(cli), ["f"]);
}

fn holes(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox
        .sh("mkdir d; truncate -s 64M d/f; echo end >> d/f")
        .ends(0);
    cli.run(&["cp", &sandbox.at("d/f"), "f"]).ends(0);
    cli.run(&["cp", &sandbox.at("d"), "d"]).ends(0);
    for name in ["f", "d/f"] {
        let meta = cli.path(name).metadata().unwrap();
        assert_eq!(meta.len(), (64 << 20) + 4, "{name}");
        assert!(meta.blocks() * 512 < 1 << 20, "{name}: {}", meta.blocks());
        assert!(fs::read(cli.path(name)).unwrap().ends_with(b"\0end\n"));
    }
}

fn deep(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox
        .sh("i=0; mkdir t; cd t; while [ $i -lt 1500 ]; do mkdir ddd; cd -P ddd; i=$((i+1)); done")
        .ends(0);
    let out = cli.run(&["cp", &sandbox.at("t"), "t"]).ends(201);
    assert!(out.stderr.contains("levels deep"), "{}", out.stderr);
}

fn listing(cli: &Cli) {
    let sandbox = Detached::new(cli, &[]);
    sandbox
        .sh(r#"mkdir d; echo x > "d/$(printf 'a\033]0;x\007')""#)
        .ends(0);
    let out = cli.run(&["ls", "--json", &sandbox.at("d")]).ends(0);
    assert!(!out.stdout.contains(&0x1b));
    let found: serde_json::Value = serde_json::from_str(out.text()).unwrap();
    assert_eq!(found[0]["name"], "a\u{1b}]0;x\u{7}");
    assert_eq!(found[0]["size"], 2);
    // Into a pipe the name goes as it is.
    assert!(
        cli.run(&["ls", &sandbox.at("d")])
            .ends(0)
            .text()
            .contains("a\u{1b}]0;x\u{7}")
    );
}
