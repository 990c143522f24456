create table if not exists products (sku text primary key, cents bigint not null, stock bigint not null);
create table if not exists orders (
    id bigint generated always as identity primary key,
    sku text not null references products,
    state text not null default 'unpaid', -- then 'paid' or 'closed'
    due timestamptz not null default now() + interval '15 minutes',
    fence bigint not null default 0 -- that of the lock under which the state was written
);
create table if not exists receipts (order_id bigint not null, sent timestamptz not null default now());
-- Stands for another company, which charges cards: see provider.rs.
create table if not exists charges (order_id bigint not null, fence bigint not null);
