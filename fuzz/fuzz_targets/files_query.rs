//! The query of `/files` and its signature.
#![no_main]

use libfuzzer_sys::fuzz_target;
use namzu_protocol::query::{self, FilesQuery};
use namzu_protocol::signature::{Operation, SignatureError, sign, verify};

fuzz_target!(|data: &str| {
    assert_eq!(query::decode(&query::encode(data)).as_deref(), Ok(data));
    let Ok(mut query) = FilesQuery::parse(data) else {
        return;
    };
    assert_eq!(FilesQuery::parse(&query.build()), Ok(query.clone()));
    // Nobody guesses a signature without the token.
    assert!(verify(&query, Operation::Read, "token", 0).is_err());
    query.signature = Some(sign(
        query.path.as_deref().unwrap_or_default(),
        Operation::Read,
        query.username.as_deref().unwrap_or_default(),
        "token",
        query.signature_expiration,
    ));
    let ambiguous = query.username.as_deref().unwrap_or_default().contains(':');
    assert_eq!(
        verify(&query, Operation::Read, "token", 0).is_ok(),
        !ambiguous
    );
    assert_eq!(
        verify(&query, Operation::Write, "token", 0),
        Err(SignatureError::Invalid)
    );
});
