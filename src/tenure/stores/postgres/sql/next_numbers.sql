-- next_numbers.sql: the next $1 places in the submit order.
SELECT array_agg(nextval('tenure.submit_order')) FROM generate_series(1, $1::integer)
