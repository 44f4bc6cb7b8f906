//! Policies that are asked for.

use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use namzu_types::{Callback, EgressPolicy, ValueSource};
use tokio::time::advance;

use super::*;

/// A policy whose list is what the cell has, and how often it was asked.
#[derive(Clone)]
struct Cell {
    list: Arc<Mutex<Result<String, &'static str>>>,
    asked: Arc<AtomicUsize>,
}

impl Cell {
    fn new(list: Result<&str, &'static str>) -> Self {
        Self {
            list: Arc::new(Mutex::new(list.map(str::to_owned))),
            asked: Arc::default(),
        }
    }

    fn set(&self, list: Result<&str, &'static str>) {
        *self.list.lock().unwrap() = list.map(str::to_owned);
    }

    fn policy(&self) -> EgressPolicy {
        let cell = self.clone();
        resolver(Callback::new(move || {
            cell.asked.fetch_add(1, Ordering::SeqCst);
            let list = cell.list.lock().unwrap().clone();
            async move {
                tokio::task::yield_now().await;
                list.map_err(Into::into)
            }
        }))
    }
}

fn resolver(callback: Callback) -> EgressPolicy {
    EgressPolicy::Resolver {
        resolve: ValueSource::Callback(callback),
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolvers_list_is_the_policy_and_holds_for_five_seconds() {
    let cell = Cell::new(Ok("a.test\n\n*.b.test\r\n"));
    let place = place(&cell.policy(), Table::default());
    assert_eq!(
        cell.asked.load(Ordering::SeqCst),
        0,
        "nobody asked for anything yet"
    );
    assert_eq!(reason(&place, "a.test").await, Reason::Allowed);
    assert_eq!(reason(&place, "x.b.test").await, Reason::Allowed);
    assert_eq!(reason(&place, "c.test").await, Reason::NotListed);
    assert_eq!(cell.asked.load(Ordering::SeqCst), 1);

    let live = place.admit(ask("a.test")).await.ok().unwrap();
    let before = place.regime.load().snapshot.generation;
    cell.set(Ok("c.test"));
    advance(Duration::from_secs(4)).await;
    assert_eq!(reason(&place, "c.test").await, Reason::NotListed);
    advance(Duration::from_secs(2)).await;
    assert_eq!(reason(&place, "c.test").await, Reason::Allowed);
    assert_eq!(live.cut().await, Reason::Narrowed);
    assert_eq!(place.regime.load().snapshot.generation, before + 1);
    assert_eq!(cell.asked.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_throws_denies_until_it_works_again() {
    let cell = Cell::new(Err("no login"));
    let place = place(&cell.policy(), Table::default());
    assert_eq!(reason(&place, "a.test").await, Reason::ResolverFailed);
    cell.set(Ok("a.test"));
    advance(Duration::from_secs(1)).await;
    assert_eq!(reason(&place, "a.test").await, Reason::Allowed);
    // Nor is what it said before believed once it is old.
    cell.set(Err("no login"));
    advance(Duration::from_secs(5)).await;
    assert_eq!(reason(&place, "a.test").await, Reason::ResolverFailed);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_whose_list_has_a_fault_denies() {
    let cell = Cell::new(Ok("a.test\n*.com"));
    let place = place(&cell.policy(), Table::default());
    assert_eq!(reason(&place, "a.test").await, Reason::ResolverFailed);
}

#[tokio::test(start_paused = true)]
async fn a_resolver_that_hangs_or_panics_denies() {
    let hangs = resolver(Callback::new(pending));
    let panics = resolver(Callback::new(|| async { panic!("on purpose") }));
    for policy in [hangs, panics] {
        let place = place(&policy, Table::default());
        assert_eq!(reason(&place, "a.test").await, Reason::ResolverFailed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_resolver_is_asked_while_something_is_open_and_ends_what_it_takes_off() {
    let cell = Cell::new(Ok("a.test\nb.test"));
    let place = place(&cell.policy(), Table::default());
    let a = place.admit(ask("a.test")).await.ok().unwrap();
    let b = place.admit(ask("b.test")).await.ok().unwrap();
    cell.set(Ok("b.test"));
    // Nobody asks for anything.
    assert_eq!(a.cut().await, Reason::Narrowed);
    drop(a);
    cell.set(Ok("c.test"));
    assert_eq!(b.cut().await, Reason::Narrowed);
    drop(b);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let asked = cell.asked.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(cell.asked.load(Ordering::SeqCst), asked, "nothing is open");
    let c = place.admit(ask("c.test")).await.ok().unwrap();
    cell.set(Ok("a.test"));
    assert_eq!(c.cut().await, Reason::Narrowed, "and it is watched again");
}

#[tokio::test(start_paused = true)]
async fn a_resolver_is_not_asked_once_its_sandbox_has_ended() {
    let cell = Cell::new(Ok("a.test"));
    let place = place(&cell.policy(), Table::default());
    let flow = place.admit(ask("a.test")).await.ok().unwrap();
    let weak = Arc::downgrade(&place);
    drop((flow, place));
    assert!(weak.upgrade().is_none(), "what asks holds nothing");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(cell.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn many_ask_a_resolver_once() {
    let cell = Cell::new(Ok("a.test"));
    let place = place(&cell.policy(), Table::default());
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let place = Arc::clone(&place);
        asking.spawn(async move { reason(&place, "a.test").await });
    }
    let reasons = asking.join_all().await;
    assert!(reasons.iter().all(|why| *why == Reason::Allowed));
    assert_eq!(cell.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn another_policy_takes_the_place_of_a_resolver() {
    let cell = Cell::new(Ok("a.test"));
    let place = place(&cell.policy(), Table::default());
    assert_eq!(reason(&place, "a.test").await, Reason::Allowed);
    place.change(&hosts(&["b.test"])).await.unwrap();
    assert_eq!(reason(&place, "a.test").await, Reason::NotListed);
    assert_eq!(reason(&place, "b.test").await, Reason::Allowed);
    assert_eq!(cell.asked.load(Ordering::SeqCst), 1);
}
