//! The doors: each speaks one protocol with programs inside, and asks [`Place`](crate::place::Place) for all
//! that matters.

pub(crate) mod names;
