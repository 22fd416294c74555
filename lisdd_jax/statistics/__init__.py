"""Shared pieces of the methods: pure functions over the arrays of one data set."""
