"""What is made of a trace: the catalogue, frames of events, the dataflow, reports."""
