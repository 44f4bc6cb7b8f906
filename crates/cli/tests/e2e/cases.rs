//! What `run` and `plan` promise over every backend.

use crate::Case;
use crate::cli::Cli;

pub(crate) const CASES: &[Case] = &[
    ("the_exit_code_is_the_commands", exit_code),
    ("a_signal_adds_128", signal_code),
    ("a_program_that_is_not_there_is_209", not_there),
    ("too_long_is_212_and_kills_the_tree", timeout),
    ("argv_is_exact", argv),
    ("the_hosts_environment_stays_out", environment),
    ("a_workdir_is_shared", workdir),
    ("a_workdir_that_is_not_there_is_refused", workdir_missing),
    ("json_reports_on_standard_error_alone", json),
    ("a_report_goes_to_its_file", report),
    ("a_report_to_a_stream_is_added_to_it", report_stream),
    (
        "an_unwritable_report_stops_before_the_command",
        report_unwritable,
    ),
    ("a_receipt_names_every_control", receipt),
    ("a_plan_names_every_control_and_starts_nothing", plan),
    ("what_cannot_be_held_is_refused_before_it_starts", refused),
];

fn exit_code(cli: &Cli) {
    for code in [0, 1, 7, 126, 255] {
        cli.sh(&format!("exit {code}")).ends(code);
    }
}

fn signal_code(cli: &Cli) {
    cli.sh("kill -9 $$").ends(137);
    cli.sh("kill -15 $$").ends(143);
}

fn not_there(cli: &Cli) {
    let out = cli.run(&["run", "--", "no-such-program | wc"]).ends(209);
    assert!(out.stdout.is_empty());
    assert!(out.stderr.starts_with("error: "), "{}", out.stderr);
    assert!(out.stderr.contains("sh -c"), "{}", out.stderr);
    let out = cli.run(&["run", "no-such-program"]).ends(209);
    assert!(
        out.stderr.contains("hint: it is not on the PATH"),
        "{}",
        out.stderr
    );
    let out = cli.run(&["run", "./script.sh"]).ends(209);
    assert!(
        out.stderr.contains("hint: nothing of this"),
        "{}",
        out.stderr
    );
}

fn timeout(cli: &Cli) {
    let mark = mark("6101");
    let script = format!("sleep {mark} & sleep {mark}");
    let out = cli.run(&["run", "--timeout", "300ms", "--", "sh", "-c", &script]);
    assert!(out.ends(212).stderr.contains("longer"));
    crate::cli::nothing_left(&mark);
}

fn argv(cli: &Cli) {
    let script = r#"printf '<%s>' "$@""#;
    let args = [
        "run", "--", "sh", "-c", script, "sh", "a b", "", "--", "-x", "$HOME", "*", "ü",
    ];
    let out = cli.run(&args).ends(0);
    assert_eq!(out.text(), "<a b><><--><-x><$HOME><*><ü>");
    // Without the `--` that begins it, too.
    let bare: Vec<_> = args
        .into_iter()
        .take(1)
        .chain(args.into_iter().skip(2))
        .collect();
    let out = cli.run(&bare).ends(0);
    assert_eq!(out.text(), "<a b><><--><-x><$HOME><*><ü>");
}

fn environment(cli: &Cli) {
    let out = cli.run(&["run", "-e", "A=1=2", "--", "env"]).ends(0);
    assert!(out.text().contains("A=1=2\n"), "{}", out.text());
    assert!(!out.text().contains("do-not-leak"), "{}", out.text());
    let out = cli.run(&["run", "-e", "HOST_SECRET", "--", "env"]).ends(0);
    assert!(
        out.text().contains("HOST_SECRET=do-not-leak\n"),
        "{}",
        out.text()
    );
}

fn workdir(cli: &Cli) {
    std::fs::write(cli.path("in"), "from the host").unwrap();
    let script = "cat in; printf 'from inside' > out";
    let out = cli
        .run(&["run", "-w", ".", "--", "sh", "-c", script])
        .ends(0);
    assert_eq!(out.text(), "from the host");
    let written = std::fs::read_to_string(cli.path("out")).unwrap();
    assert_eq!(written, "from inside");
}

fn workdir_missing(cli: &Cli) {
    let out = cli.run(&["run", "-w", "no-such-dir", "--", "true"]);
    assert!((200..220).contains(&out.code), "{out:?}");
    assert!(out.stderr.contains("no-such-dir"), "{}", out.stderr);
}

fn json(cli: &Cli) {
    let out = cli
        .run(&["run", "--json", "--", "sh", "-c", "echo data; exit 3"])
        .ends(3);
    assert_eq!(out.text(), "data\n");
    let report = out.report();
    assert_eq!(report["status"]["code"], 3);
    assert_eq!(report["exitCode"], 3);
    assert!(report["receipt"]["controls"]["network"]["strength"].is_string());
    assert!(report["usage"]["durationMs"].is_number());
    let script = "printf 'no end of line' >&2";
    let out = cli
        .run(&["run", "--json", "--", "sh", "-c", script])
        .ends(0);
    assert!(out.stderr.starts_with("no end of line\n"), "{}", out.stderr);
    assert_eq!(out.report()["exitCode"], 0);
    let report = cli
        .run(&["run", "--json", "--", "no-such-program"])
        .ends(209)
        .report();
    assert_eq!(report["error"]["code"], "command_not_started");
    assert_eq!(report["exitCode"], 209);
    assert!(report["status"].is_null());
    let args = ["run", "--json", "--timeout", "100ms", "--", "sleep", "100"];
    let report = cli.run(&args).ends(212).report();
    assert_eq!(report["error"]["code"], "exec_timeout");
}

fn report(cli: &Cli) {
    let script = "echo out; echo err >&2; kill -9 $$";
    let out = cli.run(&["run", "--report", "report.json", "--", "sh", "-c", script]);
    let out = out.ends(137);
    assert_eq!((out.text(), out.stderr.as_str()), ("out\n", "err\n"));
    let text = std::fs::read_to_string(cli.path("report.json")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["status"]["signal"], 9);
    assert_eq!(report["exitCode"], 137);
}

fn report_stream(cli: &Cli) {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(cli.path("log"))
        .unwrap();
    std::fs::write(cli.path("log"), "before\n").unwrap();
    let mut command = cli.command(&["run", "--report", "/dev/stdout", "--", "echo", "out"]);
    assert!(command.stdout(log).status().unwrap().success());
    let text = std::fs::read_to_string(cli.path("log")).unwrap();
    let (before, report) = text.split_at("before\nout\n".len());
    assert_eq!(before, "before\nout\n");
    assert!(report.contains("\"exitCode\":0"), "{report}");
}

fn report_unwritable(cli: &Cli) {
    let script = "echo ran > proof";
    let args = [
        "run", "-w", ".", "--report", "no/dir", "--", "sh", "-c", script,
    ];
    cli.run(&args).ends(205);
    // A sandbox that had the directory before may have left a link.
    std::fs::write(cli.path("victim"), "safe").unwrap();
    std::os::unix::fs::symlink("victim", cli.path("link")).unwrap();
    let out = cli.run(&[
        "run", "-w", ".", "--report", "link", "--", "sh", "-c", script,
    ]);
    assert!((200..220).contains(&out.code), "{out:?}");
    assert_eq!(std::fs::read_to_string(cli.path("victim")).unwrap(), "safe");
    assert!(!cli.path("proof").exists());
}

const CONTROLS: [&str; 9] = [
    "filesystem",
    "network",
    "processes",
    "memory",
    "pids",
    "cpu",
    "disk",
    "wall_clock",
    "syscalls",
];

fn receipt(cli: &Cli) {
    let out = cli.run(&["run", "--receipt", "--", "echo", "data"]).ends(0);
    assert_eq!(out.text(), "data\n");
    for control in CONTROLS {
        assert!(out.stderr.contains(control), "{control}: {}", out.stderr);
    }
}

fn plan(cli: &Cli) {
    let out = cli.run(&["plan"]).ends(0);
    for control in CONTROLS {
        assert!(out.text().contains(control), "{control}: {}", out.text());
    }
    let out = cli.run(&["plan", "--json"]).ends(0);
    let receipt: serde_json::Value = serde_json::from_str(out.text()).unwrap();
    for control in CONTROLS {
        assert!(
            receipt["controls"][control].is_object(),
            "{control}: {receipt}"
        );
    }
}

fn refused(cli: &Cli) {
    // What neither can hold: a wall where there is none, and a limit of time that nobody set.
    let flags: &[&str] = match cli.backend {
        "passthrough" => &["--egress", "deny-all"],
        _ => &["--require", "wall_clock"],
    };
    for (verb, rest) in [("run", &["--", "echo", "ran"][..]), ("plan", &[])] {
        let out = cli.run(&[&[verb], flags, rest].concat()).ends(204);
        assert!(out.stdout.is_empty());
        assert!(out.stderr.contains(flags[1]), "{}", out.stderr);
    }
}

/// A number that no other process has among its arguments.
pub(crate) fn mark(seed: &str) -> String {
    format!("{seed}.{}", std::process::id())
}
