//! What is written of what happens, and what becomes of it when the medium fails.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// Lines in memory, on a disk that may be full.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) full: AtomicBool,
}

impl AuditSink for Memory {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let line = String::from_utf8(line.to_vec()).unwrap();
        self.lines.lock().unwrap().push(line);
        Ok(())
    }
}

/// A medium that takes its time until it is told.
#[derive(Debug)]
struct Slow(Mutex<std::sync::mpsc::Receiver<()>>);

impl AuditSink for Slow {
    fn write(&self, _: &[u8]) -> io::Result<()> {
        let _ = self.0.lock().unwrap().recv();
        Ok(())
    }
}

/// Waits for what another thread does.
pub(crate) async fn until(mut what: impl AsyncFnMut() -> bool) {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !what().await {
        assert!(std::time::Instant::now() < patience, "it never came");
        tokio::task::yield_now().await;
    }
}

fn line(host: &str) -> Line<'_> {
    Line {
        host: Some(host.to_owned()),
        ..Line::new(Event::Decision, "test", 1)
    }
}

fn log(lines: &[&str]) -> Result<u64, VerifyError> {
    verify(
        lines
            .iter()
            .map(|l| format!("{l}\n"))
            .collect::<String>()
            .as_bytes(),
    )
}

async fn written(count: usize) -> (Vec<String>, Arc<Memory>) {
    let sink = Arc::new(Memory::default());
    let audit = Audit::start(Arc::clone(&sink) as _, Arc::default()).unwrap();
    for at in 0..count {
        audit.write(&line(&format!("h{at}.example")));
    }
    until(async || sink.lines.lock().unwrap().len() == count).await;
    let lines = sink.lines.lock().unwrap().clone();
    (lines, sink)
}

#[tokio::test]
async fn a_line_that_was_changed_taken_out_or_put_in_is_seen() {
    let (lines, _sink) = written(4).await;
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(log(&lines).unwrap(), 4);
    assert_eq!(log(&[]).unwrap(), 0);
    let changed = lines[1].replace("h1", "hx");
    assert!(log(&[lines[0], &changed, lines[2], lines[3]]).is_err());
    assert!(log(&[lines[0], lines[2], lines[3]]).is_err());
    assert!(log(&lines[1..]).is_err());
    assert!(log(&[lines[0], lines[1], lines[1], lines[2]]).is_err());
    assert!(log(&[lines[0], lines[2], lines[1], lines[3]]).is_err());
    assert!(log(&[lines[0], "{}", lines[1]]).is_err());
    let torn = format!("{}\n{}", lines[0], &lines[1][..20]);
    assert!(verify(torn.as_bytes()).is_err());
}

#[tokio::test]
async fn nothing_is_ready_while_the_disk_is_full_and_all_is_once_it_is_not() {
    let sink = Arc::new(Memory::default());
    let audit = Audit::start(Arc::clone(&sink) as _, Arc::default()).unwrap();
    audit.ready().await.unwrap();
    sink.full.store(true, Ordering::SeqCst);
    audit.write(&line("a.example"));
    until(async || audit.ready().await == Err(Reason::AuditFailed)).await;
    audit.write(&line("b.example"));
    sink.full.store(false, Ordering::SeqCst);
    until(async || audit.ready().await.is_ok()).await;
    until(async || sink.lines.lock().unwrap().len() == 2).await;
    let lines = sink.lines.lock().unwrap().clone();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(log(&lines).unwrap(), 2, "nothing was lost, nothing twice");
}

#[tokio::test]
async fn a_queue_that_is_full_holds_back_what_would_be_admitted() {
    let (go, gate) = std::sync::mpsc::channel();
    let audit = Audit::start(Arc::new(Slow(Mutex::new(gate))), Arc::default()).unwrap();
    // One batch is at the writer, so fill until it is the queue that is full.
    let mut ready = std::pin::pin!(audit.ready());
    let full = async {
        for _ in 0..3 * 4096 {
            audit.write(&line("a.example"));
        }
    };
    full.await;
    let waits = tokio::time::timeout(std::time::Duration::ZERO, &mut ready).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(go);
    ready.await.unwrap();
}

#[tokio::test]
async fn one_sandbox_that_is_refused_without_end_holds_back_no_other() {
    let (go, gate) = std::sync::mpsc::channel();
    let metrics = Arc::new(Metrics::default());
    let audit = Audit::start(Arc::new(Slow(Mutex::new(gate))), Arc::clone(&metrics)).unwrap();
    let (greedy, other) = (audit.share(), audit.share());
    let refusal = Line {
        verdict: Some("deny"),
        ..line("a.example")
    };
    for _ in 0..100_000 {
        greedy.write(&refusal);
    }
    let ready = tokio::time::timeout(std::time::Duration::ZERO, other.ready()).await;
    ready.expect("it does not wait").unwrap();
    let lost = || metrics.audit_lost.load(Ordering::Relaxed);
    let counted = lost();
    assert!(counted > 80_000, "{counted}");
    other.write(&refusal);
    greedy.write(&line("b.example"));
    assert_eq!(
        lost(),
        counted,
        "what is let out is written whatever was refused"
    );
    let waits = tokio::time::timeout(std::time::Duration::ZERO, greedy.ready()).await;
    assert!(waits.is_err(), "{waits:?}");
    drop(go);
    greedy.ready().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_fills_the_log_waits_for_its_turn_and_loses_nothing() {
    let sink = Arc::new(Memory::default());
    let metrics = Arc::new(Metrics::default());
    let audit = Audit::start(Arc::clone(&sink) as _, Arc::clone(&metrics)).unwrap();
    let (greedy, other) = (audit.share(), audit.share());
    let refusal = Line {
        verdict: Some("deny"),
        ..line("a.example")
    };
    let began = tokio::time::Instant::now();
    for _ in 0..10_000 {
        greedy.turn().await;
        greedy.ready().await.unwrap();
        greedy.write(&refusal);
    }
    let took = began.elapsed();
    assert!(took >= std::time::Duration::from_secs(6), "{took:?}");
    let waits = tokio::time::timeout(std::time::Duration::ZERO, greedy.turn()).await;
    assert!(waits.is_err(), "{waits:?}");
    let waits = tokio::time::timeout(std::time::Duration::ZERO, other.turn()).await;
    waits.expect("it has turns of its own");
    until(async || sink.lines.lock().unwrap().len() == 10_000).await;
    assert_eq!(metrics.audit_lost.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_line_takes_more_turns_than_a_short_one() {
    let sink = Arc::new(Memory::default());
    let audit = Audit::start(Arc::clone(&sink) as _, Arc::default()).unwrap();
    let long = Line {
        verdict: Some("deny"),
        path: Some("x".repeat(512 * 5000)),
        ..line("a.example")
    };
    audit.turn().await;
    audit.write(&long);
    let began = tokio::time::Instant::now();
    audit.turn().await;
    let took = began.elapsed();
    assert!(took >= std::time::Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_file_goes_on_where_it_was_and_drops_what_broke_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let lines = || io::BufReader::new(std::fs::File::open(&path).unwrap());
    let mut wanted = 0;
    for round in 0..3 {
        let audit = loop {
            // The writer of the last round may not have let go of the file yet.
            match AuditFile::open(&path) {
                Ok(file) => break Audit::start(Arc::new(file), Arc::default()).unwrap(),
                Err(busy) => assert_eq!(busy.kind(), io::ErrorKind::WouldBlock),
            }
        };
        for _ in 0..3 {
            audit.write(&line(&format!("r{round}.example")));
        }
        drop(audit);
        wanted += 3;
        while verify(lines()).unwrap_or(0) != wanted {
            std::thread::yield_now();
        }
        if round == 1 {
            use std::io::Write;
            let mut file = std::fs::OpenOptions::new()
                .append(true)
                .open(&path)
                .unwrap();
            file.write_all(b"{\"ts\":1,\"ev").unwrap();
        }
    }
    assert_eq!(verify(lines()).unwrap(), 9);
}

#[test]
fn what_is_no_audit_log_is_not_written_to() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for text in ["root:x:0:0\n", "no line end"] {
        std::fs::write(file.path(), text).unwrap();
        let opened = AuditFile::open(file.path()).unwrap();
        Audit::start(Arc::new(opened), Arc::default()).unwrap_err();
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), text);
    }
}
