//! Sources whose values change, fail and recover.

use super::*;

/// A broker with one credential, and the value that it puts into a request.
async fn value(broker: &Broker) -> Result<String, Reason> {
    let headers = sent(broker, Some("api"), []).await?;
    Ok(all(&headers, "x-key").join(","))
}

fn key(source: ValueSource) -> [(&'static str, EgressCredential); 1] {
    [("api", inject(source, "x-key", "{}"))]
}

async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}

const SECOND: Duration = Duration::from_secs(1);

struct Written {
    folder: tempfile::TempDir,
}

impl Written {
    fn new(text: &str) -> (Self, ValueSource) {
        let written = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        written.write(text);
        let path = written.path().to_str().unwrap().to_owned();
        (written, ValueSource::File(path))
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("token")
    }

    /// As tools that rotate do it: the new file takes the old one's name.
    fn write(&self, text: &str) {
        let mut file = tempfile::NamedTempFile::new_in(self.folder.path()).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.persist(self.path()).unwrap();
    }
}

/// A closure that gives `secret-N` the Nth time, or fails while it is told to.
fn counting() -> (ValueSource, Arc<AtomicUsize>, Arc<AtomicBool>) {
    let (asked, broken) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (count, fails) = (Arc::clone(&asked), Arc::clone(&broken));
    let source = ValueSource::Callback(Callback::new(move || {
        let nth = count.fetch_add(1, Ordering::SeqCst) + 1;
        let fails = fails.load(Ordering::SeqCst);
        async move {
            tokio::task::yield_now().await;
            if fails {
                Err("no login".into())
            } else {
                Ok(format!("secret-{nth}"))
            }
        }
    }));
    (source, asked, broken)
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changed_is_read_again() {
    let (file, source) = Written::new("first-secret\n");
    let broker = broker(key(source)).await;
    assert_eq!(value(&broker).await.unwrap(), "first-secret");
    // As long as the first one: only the file's identity and times tell them apart.
    file.write("other-secret\n");
    pass(SECOND).await;
    assert_eq!(value(&broker).await.unwrap(), "other-secret");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_looked_at_once_a_second_at_most() {
    let (file, source) = Written::new("first-secret");
    let broker = broker(key(source)).await;
    file.write("other-secret");
    pass(SECOND / 2).await;
    assert_eq!(value(&broker).await.unwrap(), "first-secret");
    pass(SECOND / 2).await;
    assert_eq!(value(&broker).await.unwrap(), "other-secret");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_gone_or_broken_denies_until_it_is_whole_again() {
    let (file, source) = Written::new("first-secret");
    let broker = broker(key(source)).await;
    std::fs::remove_file(file.path()).unwrap();
    pass(SECOND).await;
    assert_eq!(value(&broker).await, Err(Reason::CredentialMissing));
    for bad in ["", "short", "two\nlines of it", "back-\0-again"] {
        file.write(bad);
        pass(SECOND).await;
        assert_eq!(
            value(&broker).await,
            Err(Reason::CredentialMissing),
            "{bad}"
        );
    }
    file.write("back-again");
    pass(SECOND).await;
    assert_eq!(value(&broker).await.unwrap(), "back-again");
}

#[tokio::test(start_paused = true)]
async fn a_closure_is_asked_again_after_a_minute() {
    let (source, asked, _) = counting();
    let broker = broker(key(source)).await;
    pass(59 * SECOND).await;
    assert_eq!(value(&broker).await.unwrap(), "secret-1");
    pass(SECOND).await;
    assert_eq!(value(&broker).await.unwrap(), "secret-2");
    assert_eq!(value(&broker).await.unwrap(), "secret-2");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn many_requests_ask_a_closure_once() {
    let (source, asked, _) = counting();
    let broker = Arc::new(broker(key(source)).await);
    pass(61 * SECOND).await;
    let mut all = JoinSet::new();
    for _ in 0..50 {
        let broker = Arc::clone(&broker);
        all.spawn(async move { value(&broker).await.unwrap() });
    }
    while let Some(value) = all.join_next().await {
        assert_eq!(value.unwrap(), "secret-2");
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_fails_denies_and_recovers_by_itself() {
    let (source, asked, broken) = counting();
    let broker = broker(key(source)).await;
    broken.store(true, Ordering::SeqCst);
    pass(60 * SECOND).await;
    for _ in 0..10 {
        assert_eq!(value(&broker).await, Err(Reason::CredentialMissing));
    }
    assert_eq!(asked.load(Ordering::SeqCst), 2, "it is not hammered");
    broken.store(false, Ordering::SeqCst);
    pass(SECOND).await;
    assert_eq!(value(&broker).await.unwrap(), "secret-3");
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_hangs_denies_at_the_deadline() {
    let first = AtomicBool::new(true);
    let source = ValueSource::Callback(Callback::new(move || {
        let first = first.swap(false, Ordering::SeqCst);
        async move {
            if !first {
                std::future::pending::<()>().await;
            }
            Ok("first-secret".to_owned())
        }
    }));
    let broker = broker(key(source)).await;
    pass(60 * SECOND).await;
    let asked = tokio::time::Instant::now();
    assert_eq!(value(&broker).await, Err(Reason::CredentialMissing));
    // The clock is the test's: it stands still but for what is waited for.
    assert_eq!(asked.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_closure_that_panics_denies() {
    let first = AtomicBool::new(true);
    let source = ValueSource::Callback(Callback::new(move || {
        let first = first.swap(false, Ordering::SeqCst);
        async move {
            assert!(first, "a closure that panics");
            Ok("first-secret".to_owned())
        }
    }));
    let broker = broker(key(source)).await;
    pass(60 * SECOND).await;
    assert_eq!(value(&broker).await, Err(Reason::CredentialMissing));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_given_up_does_not_stop_the_asking() {
    let (source, asked, _) = counting();
    let broker = broker(key(source)).await;
    pass(60 * SECOND).await;
    for _ in 0..20 {
        let given_up = tokio::time::timeout(Duration::ZERO, value(&broker)).await;
        drop(given_up);
    }
    assert_eq!(value(&broker).await.unwrap(), "secret-2");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stand_in_stays_and_means_the_new_secret() {
    let (file, source) = Written::new("first-secret");
    let broker = broker([("git", sentinel(source, "T"))]).await;
    let standin = broker.env()["T"].clone();
    file.write("a-second-and-longer-secret");
    pass(SECOND).await;
    let headers = sent(&broker, Some("git"), [("x", &standin)]).await.unwrap();
    assert_eq!(all(&headers, "x"), ["a-second-and-longer-secret"]);
    assert_eq!(broker.env()["T"], standin);
}

#[tokio::test(start_paused = true)]
async fn a_rule_with_a_stand_in_denies_while_its_secret_is_missing() {
    let (file, source) = Written::new("first-secret");
    let broker = broker([("git", sentinel(source, "T"))]).await;
    std::fs::remove_file(file.path()).unwrap();
    pass(SECOND).await;
    let without = sent(&broker, Some("git"), [("accept", "*/*")]).await;
    assert_eq!(without.unwrap_err(), Reason::CredentialMissing);
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_is_refused_while_its_secret_is_missing() {
    let (file, source) = Written::new("first-secret");
    let credentials = named(key(source));
    let broker = Broker::load(&credentials, None).await.unwrap();
    std::fs::remove_file(file.path()).unwrap();
    pass(SECOND).await;
    let faults = Broker::load(&credentials, Some(&broker)).await.unwrap_err();
    assert!(
        faults[0].starts_with("credentials.api: cannot read"),
        "{faults:?}"
    );
}
