//! What the binary without flags keeps from a command, on a tier with walls.

use crate::Case;
use crate::cli::Cli;

pub(crate) const CASES: &[Case] = &[
    ("nothing_leaves_unless_it_is_said", network),
    ("the_workspace_is_empty_private_and_gone", private),
    ("a_read_only_workdir_cannot_be_written", read_only),
    ("the_hosts_files_are_not_seen", files),
    ("the_hosts_processes_are_not_seen", processes),
    ("the_hosts_streams_never_get_inside", streams),
    ("doctor_judges_by_a_sandbox_that_was_made", doctor),
];

fn network(cli: &Cli) {
    let out = cli.sh("cat /proc/net/dev").ends(0);
    let devices: Vec<_> = out
        .text()
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect();
    assert_eq!(devices, ["lo"]);
}

fn private(cli: &Cli) {
    let out = cli.sh("pwd; ls -A; echo x > f; ls -A").ends(0);
    assert_eq!(out.text(), "/workspace\nf\n");
    assert_eq!(std::fs::read_dir(cli.dir.path()).unwrap().count(), 0);
}

fn read_only(cli: &Cli) {
    std::fs::write(cli.path("f"), "kept").unwrap();
    let script = "cat f; echo x > f; rm -f f; echo x > g";
    let out = cli.run(&["run", "-w", ".:ro", "--", "sh", "-c", script]);
    assert_eq!(out.text(), "kept");
    assert_eq!(std::fs::read_to_string(cli.path("f")).unwrap(), "kept");
    assert!(!cli.path("g").exists());
}

fn files(cli: &Cli) {
    std::fs::write(cli.path("secret"), "do-not-leak").unwrap();
    let script = format!(
        "cat {}/secret; ls -A /root /home 2>&1",
        cli.dir.path().display()
    );
    let out = cli.sh(&script);
    assert!(!out.text().contains("do-not-leak"), "{}", out.text());
}

fn processes(cli: &Cli) {
    let out = cli.sh(&format!(
        "ls -d /proc/[0-9]* | wc -l; test -d /proc/{}",
        std::process::id()
    ));
    let seen: u32 = out.text().trim().parse().unwrap();
    assert!(seen <= 6, "{seen} processes are seen");
}

fn streams(cli: &Cli) {
    // A file behind standard output, opened for reading or reopened from inside, would be a way
    // out; so would the one behind standard input.
    std::fs::write(cli.path("in"), "input").unwrap();
    std::fs::write(cli.path("out"), "before;").unwrap();
    let script = "cat >/dev/null; echo evil > /proc/self/fd/0; cat /proc/self/fd/1 2>/dev/null & sleep 0; echo data";
    let append = std::fs::File::options()
        .append(true)
        .open(cli.path("out"))
        .unwrap();
    let mut child = cli
        .command(&["run", "--", "sh", "-c", script])
        .stdin(std::fs::File::open(cli.path("in")).unwrap())
        .stdout(append)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(std::fs::read_to_string(cli.path("in")).unwrap(), "input");
    let out = std::fs::read_to_string(cli.path("out")).unwrap();
    assert!(out.starts_with("before;"), "{out}");
    assert_eq!(out.matches("before").count(), 1, "{out}");
}

fn doctor(cli: &Cli) {
    cli.run(&["doctor"]).ends(0);
    let out = cli.run(&["doctor", "--json"]).ends(0);
    let found: serde_json::Value = serde_json::from_str(out.text()).unwrap();
    assert!(found["receipt"]["controls"].is_object(), "{found}");
    // It answers every question, and makes nothing.
    let real = cli.path("real");
    let path = std::env::var_os("PATH").unwrap();
    let bwrap = std::env::split_paths(&path)
        .chain(["/usr/bin".into(), "/usr/local/bin".into(), "/bin".into()])
        .map(|dir| dir.join("bwrap"))
        .find(|file| file.is_file())
        .unwrap();
    std::os::unix::fs::symlink(bwrap, &real).unwrap();
    let script = format!(
        "#!/bin/sh\ncase $1 in --help|--version) exec {} \"$1\";; esac\nexit 1\n",
        real.display()
    );
    let fake = cli.path("bwrap");
    std::fs::write(&fake, script).unwrap();
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for json in [&[][..], &["--json"]] {
        let mut command = cli.command(&[&["doctor"], json].concat());
        command.env("NAMZU_SANDBOX_BWRAP", &fake);
        let out = crate::cli::Running::start(&mut command).finish();
        assert!((200..220).contains(&out.code), "{out:?}");
        assert!(out.text().contains("bubblewrap"), "{out:?}");
        assert!(out.stderr.contains("error"), "{out:?}");
    }
    // In `PATH`, as in the virtual environment of a project, it is not even looked at.
    let mut command = cli.command(&["doctor"]);
    command.env("PATH", cli.dir.path());
    let out = crate::cli::Running::start(&mut command).finish().ends(0);
    assert!(!out.text().contains(fake.to_str().unwrap()), "{out:?}");
}
