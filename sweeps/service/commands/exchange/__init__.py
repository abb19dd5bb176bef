"""Commands that write a sweep as one file, and take results from elsewhere; one file per command."""
