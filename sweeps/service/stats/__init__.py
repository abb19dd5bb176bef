"""Pure functions of arrays: tests, intervals and rankings; knows no sweep."""
