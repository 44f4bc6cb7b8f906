//! Sandboxes that outlive their maker.

use namzu_types::{ErrorCode, SandboxSpec};

use crate::support::{provider, sh};

#[tokio::test]
async fn a_detached_sandbox_is_found_again_and_taken_down() {
    let spec = SandboxSpec {
        id: Some(
            format!("test-detach-{}", std::process::id())
                .parse()
                .unwrap(),
        ),
        labels: [("who".to_owned(), "test".to_owned())].into(),
        detach: true,
        ..SandboxSpec::default()
    };
    let id = spec.id.clone().unwrap();
    {
        let made = provider().create(spec.clone()).await.unwrap();
        sh(&made, "echo kept > /workspace/file").await.ok();
    }
    let provider = provider();
    let taken = provider.create(spec).await.unwrap_err();
    assert_eq!(taken.code(), ErrorCode::AlreadyExists);
    let listed = provider.list().await.unwrap();
    let found = listed.iter().find(|info| info.id == id).unwrap();
    assert_eq!(found.labels["who"], "test");
    {
        let found = provider.connect(&id).await.unwrap();
        assert_eq!(sh(&found, "cat /workspace/file").await.ok(), "kept\n");
    }
    provider.destroy(&id).await.unwrap();
    provider.destroy(&id).await.unwrap();
    let gone = provider.connect(&id).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::NotFound);
    assert!(
        !provider
            .list()
            .await
            .unwrap()
            .iter()
            .any(|info| info.id == id)
    );
}
