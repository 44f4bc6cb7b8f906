//! The command line itself, whatever the backend.

use std::fs;

use crate::Case;
use crate::cli::Cli;

pub(crate) const CASES: &[Case] = &[
    ("help_is_as_documented", help),
    ("version_is_data", version),
    (
        "a_wrong_command_line_is_2_and_says_nothing_on_stdout",
        usage,
    ),
    ("completions_are_for_every_shell", completions),
    ("backends_are_listed_with_their_status", backends),
    ("an_unknown_backend_is_refused_by_name", unknown_backend),
    ("a_backend_that_is_not_written_is_202", not_written),
    (
        "a_broken_configuration_is_201_and_names_the_field",
        broken_config,
    ),
    ("a_configuration_gives_backend_and_defaults", config),
    ("an_answer_nobody_reads_ends_quietly", unread),
    ("errors_have_no_colour_off_a_terminal", plain),
];

/// Compares with a golden file; `NAMZU_UPDATE_GOLDEN=1` writes it anew.
#[track_caller]
fn golden(name: &str, text: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("NAMZU_UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        text, wanted,
        "{path} differs; NAMZU_UPDATE_GOLDEN=1 writes it anew"
    );
}

fn help(cli: &Cli) {
    golden("help", cli.run(&["--help"]).ends(0).text());
    for verb in [
        &["run"][..],
        &["shell"],
        &["exec"],
        &["cp"],
        &["ls"],
        &["rm"],
        &["plan"],
        &["policy", "explain"],
        &["policy", "check"],
        &["policy", "set"],
        &["egress"],
        &["egress", "serve"],
    ] {
        let out = cli.run(&[verb, &["--help"]].concat()).ends(0);
        golden(&format!("help-{}", verb.join("-")), out.text());
        let asked = cli.run(&[&["help"], verb].concat()).ends(0);
        assert_eq!(asked.text(), out.text(), "{verb:?}");
    }
}

fn version(cli: &Cli) {
    let out = cli.run(&["--version"]).ends(0);
    assert_eq!(
        out.text(),
        format!("namzu-sandbox {}\n", env!("CARGO_PKG_VERSION"))
    );
}

fn usage(cli: &Cli) {
    for args in [
        &["run"][..],
        &["fly"],
        &["run", "--memory", "much", "--", "true"],
        &["run", "--memory", "1048577t", "--", "true"],
        &["run", "--timeout", "18446744073709551615", "--", "true"],
        &["run", "--lifetime", "18446744073709551615", "--", "true"],
        &["run", "-e", "NOT_SET_ANYWHERE", "--", "true"],
        &["ls", "/host/path"],
    ] {
        let out = cli.run(args).ends(2);
        assert!(out.stdout.is_empty(), "{args:?}");
        assert!(
            out.stderr.starts_with("error: "),
            "{args:?}: {}",
            out.stderr
        );
    }
}

fn completions(cli: &Cli) {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = cli.run(&["completions", shell]).ends(0);
        assert!(out.text().contains("namzu-sandbox"), "{shell}");
    }
}

fn backends(cli: &Cli) {
    let out = cli.run(&["backends"]).ends(0);
    for label in [
        "passthrough",
        "process:bubblewrap",
        "microvm:e2b",
        "container:runsc",
    ] {
        assert!(out.text().contains(label), "{}", out.text());
    }
    let out = cli.run(&["backends", "--json"]).ends(0);
    let found: serde_json::Value = serde_json::from_str(out.text()).unwrap();
    assert!(
        found
            .as_array()
            .unwrap()
            .iter()
            .all(|info| info["status"].is_string())
    );
}

fn unknown_backend(cli: &Cli) {
    let out = cli.run(&["plan", "--backend", "proces"]).ends(2);
    assert!(out.stderr.contains("proces"), "{}", out.stderr);
}

fn not_written(cli: &Cli) {
    fs::write(
        cli.path("c.json"),
        r#"{"backend": {"tier": "microvm", "service": "e2b", "apiKey": {"env": "E2B_API_KEY"}}}"#,
    )
    .unwrap();
    let out = cli.run(&["plan", "--config", "c.json"]).ends(202);
    assert!(out.stderr.contains("microvm:e2b"), "{}", out.stderr);
    // Nor is a configuration asked for first.
    let out = cli
        .run(&["plan", "--backend", "container:docker"])
        .ends(202);
    assert!(out.stderr.contains("container:docker"), "{}", out.stderr);
    assert!(out.stderr.contains("this build has"), "{}", out.stderr);
}

fn broken_config(cli: &Cli) {
    fs::write(
        cli.path("c.json"),
        r#"{"backend": {"tier": "process"}, "defaultEgres": 1}"#,
    )
    .unwrap();
    let out = cli.run(&["plan", "--json", "--config", "c.json"]).ends(201);
    let error = out.report();
    assert_eq!(error["error"]["code"], "config_invalid");
    assert!(error.to_string().contains("defaultEgres"), "{error}");
    cli.run(&["plan", "--config", "no-such.json"]).ends(205);
}

fn config(cli: &Cli) {
    let text =
        r#"{"backend": {"tier": "passthrough"}, "defaultEnv": {"A": "from the file", "B": "b"}}"#;
    fs::write(cli.path("c.json"), text).unwrap();
    let args = [
        "run",
        "--config",
        "c.json",
        "-e",
        "A=from the flag",
        "--",
        "sh",
        "-c",
        "echo $A $B",
    ];
    assert_eq!(cli.run(&args).ends(0).text(), "from the flag b\n");
}

fn unread(cli: &Cli) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let out = cli
        .command(&["completions", "bash"])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(141));
    assert!(out.stderr.is_empty());
}

fn plain(cli: &Cli) {
    let out = cli.run(&["plan", "--config", "no-such.json"]);
    assert!(!out.stderr.contains('\x1b'), "{}", out.stderr);
}
