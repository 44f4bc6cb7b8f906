//! The commands that a simulated machine knows.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use namzu_protocol::connect::Code;
use namzu_protocol::process as wire;

use crate::fake::Fault;
use crate::fake::machine::{Machine, WORKSPACE};
use crate::fake::process::{Exit, Process, STDERR, STDOUT};
use crate::fake::reply::Refusal;
use crate::fake::tree::{Node, absolute};
use crate::fake::words::{self, Statement, Target};

const PROGRAMS: &[&str] = &[
    "cat", "echo", "env", "false", "head", "id", "printf", "pwd", "python3", "sh", "sleep", "true",
];

/// Lets a command run; also says whether it dies with who started it.
pub(crate) fn start(
    machine: &Arc<Machine>,
    request: wire::StartRequest,
) -> Result<(Arc<Process>, bool), Refusal> {
    let config = request.process.unwrap_or_default();
    let options = request.options.unwrap_or_default();
    let mut argv: Vec<Vec<u8>> =
        if options.argv.is_empty() || machine.has(Fault::ReadsArgumentsAsText) {
            let words = std::iter::once(&config.cmd).chain(&config.args);
            words.map(|word| word.clone().into_bytes()).collect()
        } else {
            options.argv.iter().map(|word| word.to_vec()).collect()
        };
    if machine.has(Fault::DropsEmptyArguments) {
        argv.retain(|word| !word.is_empty());
    }
    if machine.has(Fault::ExpandsArguments) {
        for word in &mut argv {
            if word.contains(&b'$') {
                word.clear();
            }
        }
    }
    let mut env = machine.spec.env.clone();
    env.extend([("PATH".to_owned(), "/bin".to_owned())]);
    if machine.has(Fault::LeaksHostVariables) {
        env.extend(std::env::vars());
    }
    if !machine.has(Fault::IgnoresVariables) {
        env.extend(config.envs.clone());
    }
    let cwd = absolute(config.cwd.as_deref().unwrap_or(WORKSPACE), WORKSPACE);
    if !matches!(machine.files().get(&cwd), Ok(Node::Directory)) {
        let why = format!("there is no directory {cwd}");
        return Err(Refusal::new(Code::InvalidArgument, why));
    }
    if !machine.has(Fault::StartsNothingQuietly) && !is_program(&argv) {
        return Err(Refusal::new(Code::NotFound, "there is no such program"));
    }
    let process = Process::new(
        machine.fresh_pid(),
        request.tag,
        config,
        request.stdin.unwrap_or_default(),
    );
    machine
        .processes()
        .insert(process.pid, Arc::clone(&process));
    let context = Context {
        machine: Arc::clone(machine),
        process: Arc::clone(&process),
        env,
        cwd: if machine.has(Fault::IgnoresCwd) {
            WORKSPACE.to_owned()
        } else {
            cwd
        },
    };
    let timeout = options
        .timeout_ms
        .filter(|_| !machine.has(Fault::IgnoresTimeout))
        .map(Duration::from_millis);
    machine.tasks().spawn(live(context, argv, timeout));
    let owned = options.kill_on_disconnect && !machine.has(Fault::LeavesDroppedCommands);
    Ok((
        process,
        owned || machine.has(Fault::KillsBackgroundCommands),
    ))
}

fn is_program(argv: &[Vec<u8>]) -> bool {
    let first = argv.first().map(Vec::as_slice).unwrap_or_default();
    let name = first.strip_prefix(b"/bin/").unwrap_or(first);
    PROGRAMS.iter().any(|program| program.as_bytes() == name)
}

/// From start to end.
async fn live(context: Context, argv: Vec<Vec<u8>>, timeout: Option<Duration>) {
    let overdue = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let exit = tokio::select! {
        exit = context.run(&argv) => exit,
        signal = context.process.signalled() => Exit::Signal(signal),
        () = overdue => Exit::TimedOut,
    };
    let machine = &context.machine;
    let exit = match exit {
        Exit::Code(_) if machine.has(Fault::SwallowsExitCode) => Exit::Code(0),
        Exit::Signal(signal) if machine.has(Fault::TellsSignalsAsCodes) => Exit::Code(128 + signal),
        exit => exit,
    };
    context.process.end(exit);
    // Ended commands stay listed for a while.
    let mut processes = machine.processes();
    while processes.len() > 1_000 {
        processes.pop_first();
    }
}

struct Context {
    machine: Arc<Machine>,
    process: Arc<Process>,
    env: BTreeMap<String, String>,
    cwd: String,
}

fn text(word: &[u8]) -> String {
    String::from_utf8_lossy(word).into_owned()
}

impl Context {
    fn run<'a>(&'a self, argv: &'a [Vec<u8>]) -> Pin<Box<dyn Future<Output = Exit> + Send + 'a>> {
        Box::pin(async move {
            let statement = Statement {
                argv: argv.to_vec(),
                ..Statement::default()
            };
            self.step(&statement).await
        })
    }

    async fn step(&self, statement: &Statement) -> Exit {
        let Some((program, arguments)) = statement.argv.split_first() else {
            return Exit::Code(0);
        };
        let program = program.strip_prefix(b"/bin/").unwrap_or(program);
        match program {
            b"true" => Exit::Code(0),
            b"false" => Exit::Code(1),
            b"exit" => Exit::Code(arguments.first().map_or(0, |n| number(n))),
            b"kill" => match arguments.first().map(|word| text(word)) {
                Some(signal) => Exit::Signal(-number(signal.as_bytes())),
                None => Exit::Code(2),
            },
            b"sleep" => {
                let seconds = arguments.first().map_or(0, |n| number(n));
                let seconds = u64::try_from(seconds).unwrap_or_default();
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Exit::Code(0)
            }
            b"echo" => {
                let mut line = arguments.join(&b' ');
                line.push(b'\n');
                self.out(statement, &line).await
            }
            b"printf" => self.out(statement, &printf(arguments)).await,
            b"pwd" => {
                self.out(statement, format!("{}\n", self.cwd).as_bytes())
                    .await
            }
            b"id" => self.out(statement, b"1000\n").await,
            b"env" => {
                let lines: String = self
                    .env
                    .iter()
                    .map(|(name, value)| format!("{name}={value}\n"))
                    .collect();
                self.out(statement, lines.as_bytes()).await
            }
            b"cat" => self.cat(statement, arguments).await,
            b"head" => self.head(statement, arguments).await,
            b"sh" => self.script(arguments).await,
            b"python3" => self.python(statement, arguments).await,
            _ => Exit::Code(127),
        }
    }

    async fn out(&self, statement: &Statement, bytes: &[u8]) -> Exit {
        let read;
        let mut bytes = bytes;
        if self.machine.has(Fault::ReadsOutputAsText) {
            read = String::from_utf8_lossy(bytes).into_owned();
            bytes = read.as_bytes();
        }
        if self.machine.has(Fault::LosesLastBytes) {
            bytes = &bytes[..bytes.len().saturating_sub(1)];
        }
        let mixes = self.machine.has(Fault::MixesStreams);
        match &statement.output {
            Target::Stderr if !mixes => self.process.print(STDERR, bytes).await,
            Target::Stdout | Target::Stderr => self.process.print(STDOUT, bytes).await,
            Target::File { path, append } => {
                let path = absolute(path, &self.cwd);
                let mut files = self.machine.files();
                let written = if *append {
                    files.append(&path, bytes)
                } else {
                    files.write(&path, bytes.to_vec(), true)
                };
                drop(files);
                if written.is_err() {
                    return Exit::Code(1);
                }
            }
        }
        Exit::Code(0)
    }

    async fn cat(&self, statement: &Statement, arguments: &[Vec<u8>]) -> Exit {
        let names: Vec<_> = arguments
            .iter()
            .filter(|word| !matches!(word.as_slice(), b"-u" | b"--"))
            .collect();
        for name in &names {
            let path = absolute(&text(name), &self.cwd);
            let bytes = self.machine.files().read(&path).map(<[u8]>::to_vec);
            let Ok(bytes) = bytes else {
                self.process.print(STDERR, b"cat: no such file\n").await;
                return Exit::Code(1);
            };
            self.out(statement, &bytes).await;
        }
        if names.is_empty() {
            let mut count = 0;
            while let Some(bytes) = self.process.read().await {
                count += bytes.len();
                if self.machine.has(Fault::CutsInput) && count > 4096 {
                    break;
                }
                self.out(statement, &bytes).await;
            }
        }
        Exit::Code(0)
    }

    /// `head -c COUNT /dev/zero`
    async fn head(&self, statement: &Statement, arguments: &[Vec<u8>]) -> Exit {
        let [flag, count, file] = arguments else {
            return Exit::Code(2);
        };
        if flag != b"-c" || file != b"/dev/zero" {
            return Exit::Code(2);
        }
        let zeros = vec![0; 64 << 10];
        let mut left = usize::try_from(number(count)).unwrap_or_default();
        while left > 0 {
            let piece = left.min(zeros.len());
            self.out(statement, &zeros[..piece]).await;
            left -= piece;
        }
        Exit::Code(0)
    }

    /// `sh -c SCRIPT`
    async fn script(&self, arguments: &[Vec<u8>]) -> Exit {
        let [flag, script, ..] = arguments else {
            return Exit::Code(2);
        };
        let variable = |name: &str| match name {
            "$" => self.process.pid.to_string(),
            name => self.env.get(name).cloned().unwrap_or_default(),
        };
        let Some(statements) = (flag == b"-c")
            .then(|| words::parse(&text(script), variable))
            .flatten()
        else {
            let why = b"sh: only simple commands are simulated\n";
            self.process.print(STDERR, why).await;
            return Exit::Code(2);
        };
        let mut last = Exit::Code(0);
        for statement in &statements {
            if statement.after_success && last != Exit::Code(0) {
                continue;
            }
            last = Box::pin(self.step(statement)).await;
            let ends = matches!(statement.argv[0].as_slice(), b"exit" | b"kill");
            if ends || !matches!(last, Exit::Code(_)) {
                return last;
            }
        }
        last
    }

    /// `python3 -c PROGRAM VERB ARGUMENTS`: the verbs of the suite's probe that can be simulated.
    async fn python(&self, statement: &Statement, arguments: &[Vec<u8>]) -> Exit {
        let words: Vec<_> = arguments.iter().skip(1).map(|word| text(word)).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["print(6*7)"] => self.out(statement, b"42\n").await,
            [_, "connect", host, port] => {
                let reached = self.machine.is_open() && reach(host, port).await.is_ok();
                self.answer(reached, "ENETUNREACH: simulated").await
            }
            [_, "dns", name] => match self.machine.network().resolve(name).await {
                Ok(address) => self.out(statement, format!("{address}\n").as_bytes()).await,
                Err(err) => self.answer(false, &format!("gaierror: {err}")).await,
            },
            [_, "get", url] => match self.machine.network().fetch(url).await {
                Ok((200, body)) => {
                    self.out(statement, format!("200 {body}\n").as_bytes())
                        .await
                }
                Ok((status, body)) => self.answer(false, &format!("{status} {body}")).await,
                Err(err) => self.answer(false, &format!("URLError: {err}")).await,
            },
            [_, "alloc", mib] => {
                let wants = u64::try_from(number(mib.as_bytes())).unwrap_or_default() << 20;
                let limit = self.machine.spec.limits.memory;
                if limit.is_some_and(|limit| wants > limit)
                    && !self.machine.has(Fault::IgnoresMemoryLimit)
                {
                    return Exit::OutOfMemory;
                }
                Exit::Code(0)
            }
            [_, "forks", count] => {
                let wants = u32::try_from(number(count.as_bytes())).unwrap_or_default();
                let limit = self.machine.spec.limits.processes.unwrap_or(u32::MAX);
                let held = !self.machine.has(Fault::IgnoresPidsLimit);
                let got = if held { wants.min(limit - 1) } else { wants };
                self.out(statement, format!("{got}\n").as_bytes()).await;
                self.answer(got == wants, "EAGAIN: simulated").await
            }
            _ => Exit::Code(3),
        }
    }

    async fn answer(&self, given: bool, why: &str) -> Exit {
        if given {
            return Exit::Code(0);
        }
        self.process
            .print(STDOUT, format!("{why}\n").as_bytes())
            .await;
        Exit::Code(10)
    }
}

/// The simulated network is the host's.
async fn reach(host: &str, port: &str) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt;
    let port = port.parse().map_err(std::io::Error::other)?;
    let mut stream = tokio::net::TcpStream::connect((host, port)).await?;
    stream.write_all(b"probe\n").await
}

fn number(word: &[u8]) -> i32 {
    text(word).parse().unwrap_or(2)
}

/// `printf FORMAT ARGUMENTS`, with `%s`, `\0` and `\n`; the format repeats while arguments last.
fn printf(arguments: &[Vec<u8>]) -> Vec<u8> {
    let Some((format, mut rest)) = arguments.split_first() else {
        return Vec::new();
    };
    let mut printed = Vec::new();
    loop {
        let mut bytes = format.iter();
        while let Some(byte) = bytes.next() {
            match (byte, bytes.as_slice().first()) {
                (b'%', Some(b's')) => {
                    bytes.next();
                    if let Some((word, more)) = rest.split_first() {
                        printed.extend(word);
                        rest = more;
                    }
                }
                (b'\\', Some(b'0')) => {
                    bytes.next();
                    printed.push(0);
                }
                (b'\\', Some(b'n')) => {
                    bytes.next();
                    printed.push(b'\n');
                }
                (byte, _) => printed.push(*byte),
            }
        }
        let consumes = format.windows(2).any(|pair| pair == b"%s");
        if rest.is_empty() || !consumes {
            return printed;
        }
    }
}
