//! `vetch backup now`.

use clap::Args;
use vetch_api::vetch::operator_client::OperatorClient;
use vetch_api::vetch::{BackUpRequest, BackUpResponse};

use super::super::client::{ClientArgs, refused};
use super::super::{Failure, print_result};

#[derive(Args)]
pub(super) struct Now {
    #[command(flatten)]
    client: ClientArgs,
    /// Also take a full backup, if there is a newer checkpoint than that of the last one.
    #[arg(long)]
    full: bool,
}

impl Now {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let endpoints = self.client.endpoints();
        let [endpoint] = endpoints.as_slice() else {
            return Err(Failure::bad_arguments("give one endpoint: a backup is made by one server"));
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let done: BackUpResponse = runtime.block_on(async {
            let session = self.client.connect(endpoint).await?;
            let request = session.request(BackUpRequest { full: self.full });
            let answer = OperatorClient::new(session.channel()).back_up(request).await.map_err(refused)?;
            Ok::<_, Failure>(answer.into_inner())
        })?;
        let BackUpResponse { location, revision, full_revision } = done;
        print_result(&format!(
            "everything up to revision {revision} is in {location}; the newest full backup is of revision {full_revision}"
        ))
    }
}
