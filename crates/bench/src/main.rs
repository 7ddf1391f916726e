//! Prints the performance measures, each beside its floor.
//!
//! Exit codes: 0 all is well, 1 a ratio of the quick run is worse than it may
//! be or something could not be measured, 2 the command line was not
//! understood.

use clap::Parser;
use folio_bench::Failure;
use folio_bench::allocator::Counting;
use folio_bench::bounds::Bounds;
use folio_bench::line::{HEAD, Line};
use folio_bench::measure::{ALL, Measure};
use folio_bench::run::{Run, Size};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Performance measures, each as a ratio to a floor of the same run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Args {
    /// Measures by name; all of them if none is named.
    measures: Vec<String>,
    /// Small sizes: minutes; fails where a ratio is worse than recorded by
    /// more than half.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Pages at ten million events, too.
    #[arg(long)]
    full: bool,
    /// Records the ratios of a quick run.
    #[arg(long, requires = "quick")]
    record: bool,
    /// Writes the lines into a file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Where the stores are made: on the disk that is to be measured, never in
    /// memory. The folder of this program, if not given.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let measures = match chosen(&args.measures) {
        Ok(measures) => measures,
        Err(unknown) => {
            eprintln!("error: no measure is called {unknown}; there are:");
            for measure in ALL {
                eprintln!("  {:<8} {}", measure.name, measure.about);
            }
            return ExitCode::from(2);
        }
    };
    match bench(&args, &measures) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The measures of these names, in the order in which they run.
fn chosen(names: &[String]) -> Result<Vec<&'static Measure>, &String> {
    let unknown = |name: &&String| !ALL.iter().any(|measure| measure.name == **name);
    if let Some(name) = names.iter().find(unknown) {
        return Err(name);
    }
    let is_chosen =
        |measure: &&Measure| names.is_empty() || names.iter().any(|name| name == measure.name);
    Ok(ALL.iter().filter(is_chosen).collect())
}

/// Runs the measures; answers whether every ratio is within its bound.
fn bench(args: &Args, measures: &[&Measure]) -> Result<bool, Failure> {
    let size = match (args.quick, args.full) {
        (true, _) => Size::Quick,
        (_, true) => Size::Full,
        _ => Size::Standard,
    };
    let folder = match &args.folder {
        Some(folder) => folder.clone(),
        None => {
            let program = std::env::current_exe()?;
            program.parent().map(Into::into).ok_or("no folder")?
        }
    };
    let mut run = Run::new(size, &folder)?;
    let mut lines = Vec::new();
    println!("{HEAD}");
    for measure in measures {
        let started = Instant::now();
        let measured =
            (measure.run)(&mut run).map_err(|error| format!("{}: {error}", measure.name))?;
        for line in &measured {
            println!("{line}");
        }
        eprintln!("{} took {:.0?}", measure.name, started.elapsed());
        lines.extend(measured);
    }
    if let Some(path) = &args.json {
        let lines: Vec<_> = lines.iter().map(Line::to_json).collect();
        let json = serde_json::to_string_pretty(&lines)?;
        std::fs::write(path, json + "\n")?;
    }
    if !args.quick {
        return Ok(true);
    }
    let path = Bounds::path();
    let text = match std::fs::read_to_string(&path) {
        Err(error) if args.record && error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| format!("{}: {error}", path.display()))?,
    };
    let mut bounds = Bounds::parse(&text)?;
    if args.record {
        bounds.record(&lines);
        std::fs::write(&path, bounds.to_text())?;
        return Ok(true);
    }
    let worse: Vec<String> = lines.iter().filter_map(|line| bounds.judge(line)).collect();
    for line in &worse {
        eprintln!("worse than it may be: {line}");
    }
    Ok(worse.is_empty())
}
