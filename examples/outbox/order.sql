-- psql "$DATABASE_URL" -v ON_ERROR_STOP=1 -f examples/outbox/order.sql

create table if not exists orders (
  id bigint generated always as identity primary key,
  email text not null
);

begin;

with placed as (
  insert into orders (email)
  values ('ada@example.com')
  returning id, email)
select stint_outbox.enqueue('mail', json_build_object('order', id, 'to', email), '{"kind": "receipt"}')
from placed;

-- Of many rows, one job each.
select stint_outbox.enqueue('reminders', json_build_object('order', id), '{"kind": "review", "delay": "7d"}')
from orders
where email = 'ada@example.com';

commit;
