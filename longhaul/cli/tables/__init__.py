"""Tables of the Glue catalog as `longhaul table` shows, queries and checks them."""
