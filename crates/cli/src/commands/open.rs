//! stub
use crate::app::App;
use crate::failure::{Exit, Failure};
pub async fn run(_app: &mut App, _o: Vec<std::path::PathBuf>) -> Result<Exit, Failure> { Ok(Exit::Ok) }
