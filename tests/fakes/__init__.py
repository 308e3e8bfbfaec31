"""Stand-ins for the outside world; the product never imports them."""
