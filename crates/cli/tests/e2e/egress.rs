//! What may leave, from the command line: sandboxes, jails, the proxy, the keeper.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::Case;
use crate::cases::mark;
use crate::cli::{Cli, Output, Running, gone, nothing_left};

/// Need a sandbox.
pub(crate) const CASES: &[Case] = &[
    (
        "what_is_allowed_is_reached_by_name_and_nothing_else",
        allowed,
    ),
    ("every_decision_is_written_to_the_audit_log", audited),
    ("a_jail_has_the_hosts_files_and_no_network_of_its_own", jail),
    (
        "a_jail_has_no_unix_sockets_unless_they_are_asked_for",
        unix_sockets,
    ),
    ("a_jail_ends_as_its_command_and_leaves_nothing", jail_end),
    ("a_keeper_holds_the_network_of_a_detached_sandbox", kept),
    ("a_keeper_ends_with_its_sandbox", keeper_ends),
    ("a_stop_reaches_a_keeper_that_is_not_ready", keeper_stopped),
    (
        "a_killed_keeper_leaves_a_sandbox_with_no_way_out",
        keeper_killed,
    ),
    ("what_a_keeper_cannot_make_is_said_whole", not_kept),
];

/// Need none.
pub(crate) const VERBS: &[Case] = &[
    ("explain_says_whether_by_which_rule_and_why", explain),
    ("check_says_everything_that_is_wrong_at_once", check),
    ("a_boundary_is_held_to_its_schema", boundary),
    (
        "serve_lets_out_what_the_policy_names_and_reads_it_again",
        serve,
    ),
];

/// A server on the loopback that says `hello` to each request, and the files that let it be reached
/// as `up.test`.
struct Upstream {
    at: SocketAddr,
}

impl Upstream {
    fn start(cli: &Cli) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || greet(stream));
            }
        });
        let upstream = Self { at };
        let boundary =
            json!({ "hosts": { "up.test": ["127.0.0.1"], "other.test": ["127.0.0.1"] } });
        std::fs::write(cli.path("boundary"), boundary.to_string()).unwrap();
        upstream.write(cli, "policy", "up.test");
        upstream.write(cli, "other", "other.test");
        upstream
    }

    fn write(&self, cli: &Cli, file: &str, host: &str) {
        let rule = json!({
            "host": host,
            "ports": [self.at.port()],
            "scheme": "http",
            "inward": ["127.0.0.1/32"],
        });
        let policy = json!({ "kind": "static", "rules": [rule] });
        std::fs::write(cli.path(file), policy.to_string()).unwrap();
    }

    /// A shell command that asks for `host`, and prints the status and the body.
    fn get(&self, host: &str) -> String {
        format!(
            "curl -sS --max-time 20 -w '\\n%{{http_code}}\\n' http://{host}:{}/",
            self.at.port()
        )
    }
}

fn greet(mut stream: impl Read + Write) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return,
        }
    }
    let _ =
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello");
}

const FLAGS: [&str; 4] = ["--boundary", "boundary", "--policy", "policy"];

/// With these words after the verb.
fn with(verb: &[&str], script: &str) -> Vec<String> {
    let words = [verb, &FLAGS, &["--", "sh", "-c", script]].concat();
    words.into_iter().map(str::to_owned).collect()
}

fn run(cli: &Cli, words: &[String]) -> Output {
    cli.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

fn allowed(cli: &Cli) {
    let upstream = Upstream::start(cli);
    let script = upstream.get("up.test");
    let out = run(cli, &with(&["run", "--verify-egress"], &script)).ends(0);
    assert_eq!(out.text(), "hello\n200\n");
    // Programs that know no proxy get there by the name alone.
    let script = format!("env -u http_proxy -u HTTP_PROXY {script}");
    assert_eq!(
        run(cli, &with(&["run"], &script)).ends(0).text(),
        "hello\n200\n"
    );

    let out = run(cli, &with(&["run"], &upstream.get("other.test"))).ends(0);
    let (body, code) = out.text().trim_end().rsplit_once('\n').unwrap();
    assert_eq!(code, "403");
    let body: Value = serde_json::from_str(body).unwrap_or_else(|err| panic!("{err}: {body}"));
    assert!(body.to_string().contains("other.test"), "{body}");
    // Nothing but names: the address that is behind them leads nowhere.
    let script = format!("curl -sS --noproxy '*' http://{}/", upstream.at);
    assert_ne!(run(cli, &with(&["run"], &script)).code, 0);
}

fn audited(cli: &Cli) {
    let upstream = Upstream::start(cli);
    let script = format!("{}; {}", upstream.get("up.test"), upstream.get("no.test"));
    run(cli, &with(&["run", "--audit-log", "log"], &script)).ends(0);
    let log = std::fs::read_to_string(cli.path("log")).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for host in ["up.test", "no.test"] {
        assert!(lines.iter().any(|line| line["host"] == host), "{log}");
    }
}

fn jail(cli: &Cli) {
    let upstream = Upstream::start(cli);
    let host = Cli::new("");
    std::fs::write(cli.path("mine"), "kept").unwrap();
    let inside = |words: &[&str]| {
        let mut command = host.command(&[&["egress"], words].concat());
        command.current_dir(cli.dir.path()).stdin(Stdio::null());
        Running::start(&mut command).finish()
    };
    let jailed = |script: &str| inside(&[&FLAGS[..], &["--", "sh", "-c", script]].concat());
    let out = jailed("cat mine; echo new > made; echo $HOST_SECRET; pwd; id -u").ends(0);
    let me = rustix::process::geteuid().as_raw();
    let here = cli.dir.path().canonicalize().unwrap();
    let wanted = format!("keptdo-not-leak\n{}\n{me}\n", here.display());
    assert_eq!(out.text(), wanted);
    assert_eq!(std::fs::read_to_string(cli.path("made")).unwrap(), "new\n");

    assert_eq!(
        jailed(&upstream.get("up.test")).ends(0).text(),
        "hello\n200\n"
    );
    let denied = jailed(&upstream.get("other.test")).ends(0);
    assert!(denied.text().ends_with("\n403\n"), "{denied:?}");
    let script = format!("curl -sS --noproxy '*' http://{}/", upstream.at);
    assert_ne!(jailed(&script).code, 0);
    let out = inside(&["--", "sh", "-c", "cut -d: -f1 /proc/net/dev | tail -n +3"]).ends(0);
    assert_eq!(out.text().trim(), "lo");
    // The host lacks a place for the boundary's certificates, and its own stay as they are.
    let rule = json!({ "host": "up.test", "tls": "terminate" });
    let policy = json!({ "kind": "static", "rules": [rule] });
    std::fs::write(cli.path("tls"), policy.to_string()).unwrap();
    let script = "test -s $SSL_CERT_FILE && test -s $NODE_EXTRA_CA_CERTS && echo $SSL_CERT_FILE";
    let out = inside(&["--policy", "tls", "--", "sh", "-c", script]).ends(0);
    assert!(!std::path::Path::new(out.text().trim()).exists(), "{out:?}");
    // What it is and what not.
    let out = inside(&["--json", "--", "true"]).ends(0);
    let controls = out.report()["receipt"]["controls"].clone();
    assert_eq!(controls["filesystem"]["strength"], "none", "{controls}");
    assert_eq!(controls["network"]["strength"], "enforced", "{controls}");
}

fn unix_sockets(cli: &Cli) {
    let listener = UnixListener::bind(cli.path("socket")).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            greet(stream);
        }
    });
    let host = Cli::new("");
    let socket = cli.path("socket");
    let ask = |flags: &[&str]| {
        let curl = ["--", "curl", "-sS", "--unix-socket"];
        let words = [
            &["egress"],
            flags,
            &curl,
            &[socket.to_str().unwrap(), "http://x/"],
        ];
        host.run(&words.concat())
    };
    assert_ne!(ask(&[]).code, 0);
    let out = ask(&["--allow-unix-sockets"]).ends(0);
    assert_eq!(out.text(), "hello");
    assert!(out.stderr.contains("unix sockets"), "{}", out.stderr);
    let words = ["egress", "--allow-unix-sockets", "--json", "--", "true"];
    let network = host.run(&words).ends(0).report()["receipt"]["controls"]["network"].clone();
    assert_eq!(network["strength"], "best_effort", "{network}");
}

fn jail_end(_: &Cli) {
    let host = Cli::new("");
    let run = |script: &str| host.run(&["egress", "--", "sh", "-c", script]);
    run("exit 7").ends(7);
    run("kill -KILL $$").ends(137);
    host.run(&["egress", "--", "no-such-program"]).ends(209);
    host.run(&["egress", "--backend", "process", "--", "true"])
        .ends(2);
    host.run(&["egress", "--egress", "allow-all", "--", "true"])
        .ends(204);
    for signal in [Signal::TERM, Signal::KILL] {
        let mark = mark("6401");
        let script = format!("sleep {mark} & echo ready; sleep {mark}");
        let mut command = host.command(&["egress", "--", "sh", "-c", &script]);
        let mut running = Running::start(command.stdin(Stdio::null()));
        running.wait_for("ready");
        running.signal(signal);
        running.wait();
        nothing_left(&mark);
    }
}

/// A detached sandbox with a keeper, removed at the end of the case.
struct Kept<'a> {
    cli: &'a Cli,
    id: String,
}

impl<'a> Kept<'a> {
    fn new(cli: &'a Cli) -> Self {
        let out = cli.run(&[&["run", "-d"], &FLAGS[..]].concat()).ends(0);
        let id = out.text().trim().to_owned();
        assert_eq!(out.text(), format!("{id}\n"));
        Self { cli, id }
    }

    fn sh(&self, script: &str) -> Output {
        self.cli.run(&["exec", &self.id, "--", "sh", "-c", script])
    }

    fn explain(&self, host: &str) -> Output {
        self.cli
            .run(&["policy", "explain", "--json", "--sandbox", &self.id, host])
    }

    fn keeper(&self) -> Pid {
        let found = keepers(self.cli);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }
}

/// The keepers that were started in the directory of this case.
fn keepers(cli: &Cli) -> Vec<Pid> {
    let here = cli.dir.path().canonicalize().unwrap();
    let is_keeper = |pid: &i32| {
        let proc = format!("/proc/{pid}");
        let line = std::fs::read(format!("{proc}/cmdline")).unwrap_or_default();
        let words: Vec<_> = line.split(|byte| *byte == 0).collect();
        words.get(1) == Some(&&b"keep"[..])
            && std::fs::read_link(format!("{proc}/cwd")).is_ok_and(|cwd| cwd == here)
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(is_keeper)
        .filter_map(Pid::from_raw)
        .collect()
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.cli.run(&["rm", &self.id]);
    }
}

fn kept(cli: &Cli) {
    let upstream = Upstream::start(cli);
    let kept = Kept::new(cli);
    assert_eq!(
        kept.sh(&upstream.get("up.test")).ends(0).text(),
        "hello\n200\n"
    );
    let port = upstream.at.port();
    kept.explain(&format!("up.test:{port}")).ends(0);
    kept.explain(&format!("other.test:{port}")).ends(1);

    let out = cli.run(&["policy", "set", "--json", &kept.id, "--policy", "other"]);
    let change: Value = serde_json::from_str(out.ends(0).text()).unwrap();
    assert_eq!(change["generation"], 2, "{change}");
    assert_eq!(
        kept.sh(&upstream.get("other.test")).ends(0).text(),
        "hello\n200\n"
    );
    assert!(
        kept.sh(&upstream.get("up.test"))
            .ends(0)
            .text()
            .ends_with("\n403\n")
    );
    kept.explain(&format!("up.test:{port}")).ends(1);

    // A policy that is none changes nothing, and is refused with every reason.
    let words = [
        "policy", "set", &kept.id, "--allow", "*.com", "--allow", "a..b",
    ];
    let out = cli.run(&words).ends(201);
    assert!(all_said(&out, ["`*.com`", "`a..b`"]), "{out:?}");
    kept.explain(&format!("other.test:{port}")).ends(0);
}

fn keeper_ends(cli: &Cli) {
    Upstream::start(cli);
    let kept = Kept::new(cli);
    let keeper = kept.keeper();
    cli.run(&["rm", &kept.id]).ends(0);
    assert!(gone(keeper), "the keeper stays");
    cli.run(&["policy", "set", &kept.id, "--allow", "a.test"])
        .ends(205);
}

fn keeper_killed(cli: &Cli) {
    let upstream = Upstream::start(cli);
    let kept = Kept::new(cli);
    let keeper = kept.keeper();
    kill_process(keeper, Signal::KILL).unwrap();
    assert!(gone(keeper));
    kept.sh("echo alive").ends(0);
    let out = kept.sh(&upstream.get("up.test"));
    assert_ne!(out.code, 0, "{out:?}");
    cli.run(&["policy", "set", &kept.id, "--policy", "policy"])
        .ends(217);
    cli.run(&["rm", &kept.id]).ends(0);
    cli.run(&["exec", &kept.id, "--", "true"]).ends(205);
}

fn keeper_stopped(cli: &Cli) {
    // The secret's source says when it is asked, and never answers.
    let called = cli.path("called");
    mknodat(CWD, &called, FileType::Fifo, Mode::from(0o600), 0).unwrap();
    let mark = mark("6402");
    let script = format!("echo > {}; exec sleep {mark}", called.display());
    let policy = json!({
        "kind": "static",
        "rules": [{ "host": "up.test", "credential": "c" }],
        "credentials": { "c": {
            "mode": "inject",
            "source": { "command": ["/bin/sh", "-c", script] },
            "header": "authorization",
        } },
    });
    std::fs::write(cli.path("policy"), policy.to_string()).unwrap();
    let mut command = cli.command(&["run", "-d", "--policy", "policy"]);
    let mut running = Running::start(command.stdin(Stdio::null()).process_group(0));
    std::fs::read(&called).unwrap();
    let keepers = keepers(cli);
    assert_eq!(keepers.len(), 1);
    running.signal_group(Signal::INT);
    running.finish().ends_by(Signal::INT);
    assert!(keepers.into_iter().all(gone), "the keeper stays");
    nothing_left(&mark);
}

fn not_kept(cli: &Cli) {
    Upstream::start(cli);
    let name = format!("e2e-kept-{}", std::process::id());
    let words = [
        &["run", "-d", "--name", &name],
        &FLAGS[..],
        &["--", "no-such-program"],
    ];
    let out = cli.run(&words.concat()).ends(209);
    assert!(out.stderr.contains("no-such-program"), "{out:?}");
    let words = [&["run", "-d", "--json", "--memory", "1"], &FLAGS[..]];
    let out = cli.run(&words.concat()).ends(201);
    assert_eq!(out.report()["error"]["code"], "invalid_argument", "{out:?}");
    cli.run(&["exec", &name, "--", "true"]).ends(205);
}

fn explain(cli: &Cli) {
    let ask = |words: &[&str]| cli.run(&[&["policy", "explain"], words].concat());
    let out = ask(&["--json", "--allow", "*.a.test", "x.a.test"]).ends(0);
    let answer: Value = serde_json::from_str(out.text()).unwrap();
    assert_eq!(answer["allowed"], true, "{answer}");
    assert!(answer["rule"].is_string(), "{answer}");
    for words in [
        &["--allow", "*.a.test", "a.test"][..],
        &["--allow", "a.test", "a.test:22"],
        &["a.test"],
    ] {
        let out = ask(words).ends(1);
        assert!(out.text().starts_with("denied: "), "{out:?}");
    }
    ask(&["--allow", "a.test", "a..test"]).ends(201);
    ask(&["--allow", "*.com", "a.com"]).ends(201);
    ask(&["--allow", "a.test", "https://a.test/"]).ends(2);
    ask(&["--sandbox", "no-such", "a.test"]).ends(205);
}

fn all_said<const N: usize>(out: &Output, what: [&str; N]) -> bool {
    what.iter().all(|text| out.stderr.contains(text))
}

fn check(cli: &Cli) {
    let check = |text: &str| {
        std::fs::write(cli.path("p"), text).unwrap();
        cli.run(&["policy", "check", "p"])
    };
    check(r#"{"kind": "static", "allowedHosts": ["a.test"]}"#).ends(0);
    let out = check(r#"{"kind": "static", "allowedHosts": ["*.com", "b..c"]}"#).ends(201);
    let places = ["`allowedHosts[0]`", "`allowedHosts[1]`"];
    assert!(all_said(&out, places), "{out:?}");
    // Faults of the shape do not hide those of the meaning.
    let out = check(r#"{"kind": "static", "allowedHosts": ["*.com", "https://b.test"]}"#).ends(201);
    assert!(all_said(&out, places), "{out:?}");
    check(r#"{"kind": "static", "hosts": []}"#).ends(201);
    check("").ends(201);
    cli.run(&["policy", "check", "no-such"]).ends(205);
}

fn boundary(cli: &Cli) {
    std::fs::write(cli.path("b"), r#"{"nameServer": []}"#).unwrap();
    let out = cli.run(&["egress", "serve", "--boundary", "b"]).ends(201);
    assert!(out.stderr.contains("nameServer"), "{out:?}");
}

fn serve(cli: &Cli) {
    let upstream = Upstream::start(cli);
    let listen = [
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--json",
    ];
    let mut command = cli.command(&[&["egress", "serve"], &FLAGS[..], &listen].concat());
    let mut running = Running::start(command.stdin(Stdio::null()));
    let said: Value = serde_json::from_str(&running.wait_for("}")).unwrap();
    let proxy = said["listens"].as_str().unwrap();
    let ask = |host: &str| {
        let port = upstream.at.port();
        let request = format!(
            "GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
        );
        talk(proxy, &request)
    };
    assert!(ask("up.test").ends_with("hello"));
    assert!(ask("other.test").starts_with("HTTP/1.1 403"));

    let counters = talk(
        said["metrics"].as_str().unwrap(),
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    assert!(
        counters.contains("namzu_egress_decisions_total"),
        "{counters}"
    );

    upstream.write(cli, "policy", "other.test");
    running.signal(Signal::HUP);
    let stderr = running.child.stderr.as_mut().unwrap();
    crate::cli::read_until(stderr, "\"generation\":2");
    assert!(ask("other.test").ends_with("hello"));
    assert!(ask("up.test").starts_with("HTTP/1.1 403"));
    running.signal(Signal::TERM);
    running.finish().ends_by(Signal::TERM);
}

fn talk(to: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
