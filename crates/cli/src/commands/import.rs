//! stub
use crate::app::App;
use crate::args::ImportOptions;
use crate::failure::{Exit, Failure};
pub async fn run(_app: &mut App, _o: ImportOptions) -> Result<Exit, Failure> { Ok(Exit::Ok) }
