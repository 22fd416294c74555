# Peers in R, for benchmarks/record.py: Rscript peers.R TABLE TURNS prints a line of JSON for each.
# Each answers a part of the question: a robust fit, where a linear model changes.
words <- commandArgs(trailingOnly = TRUE)
data <- read.csv(words[1])
turns <- as.integer(words[2])

measure <- function(package, name, call) {
  if (!requireNamespace(package, quietly = TRUE)) {
    cat(sprintf('{"peer": "%s", "error": ["%s is not installed"]}\n', name, package))
    return(invisible())
  }
  value <- call()
  times <- sapply(seq_len(turns), function(i) {
    spent <- system.time(call())
    c(sum(spent[c("user.self", "sys.self")]), spent[["elapsed"]])
  })
  middle <- apply(times, 1, median)
  cat(sprintf('{"peer": "%s", "run_cpu": %.6g, "run_wall": %.6g, "value": %.17g}\n',
              name, middle[1], middle[2], value))
}

measure("robustbase", "ltsReg 500", function() {
  set.seed(0)
  robustbase::ltsReg(y ~ x + v - 1, data = data, alpha = 0.75, nsamp = 500)$crit
})
measure("partykit", "lmtree", function() {
  length(partykit::nodeids(partykit::lmtree(y ~ x + v - 1 | x, data = data), terminal = TRUE))
})
# Its dynamic programme is quadratic in the rows: some hundreds at most.
few <- data[order(data$x), ][round(seq(1, nrow(data), length.out = min(nrow(data), 300))), ]
measure("strucchange", "breakpoints 300", function() {
  found <- strucchange::breakpoints(y ~ x + v - 1, data = few, h = 0.1)$breakpoints
  if (length(found) == 1 && is.na(found)) 0 else length(found)
})
