-- Real work for some seconds: a small shop's database is made, indexed, joined, sorted, searched and asked about paths.
-- Everything is computed, so every run does the same. Sizes are in `sizes`.
pragma temp_store = memory;
create table sizes(customers integer, orders integer, words integer);
insert into sizes values (20000, 600000, 200000);

create table customer(id integer primary key, name text, city text, friend integer);
with recursive n(i) as (select 1 union all select i + 1 from n, sizes where i < customers)
  insert into customer
  select i, printf('%s%05d', substr('abcdefghijklmnopqrstuvwxyz', i * 7 % 26 + 1, 1), i * 7919 % 20011),
         'city ' || (i * 31 % 97), i * 16807 % 20000 + 1
  from n;

create table sale(id integer primary key, customer integer, product integer, day integer, price real);
with recursive n(i) as (select 1 union all select i + 1 from n, sizes where i < orders)
  insert into sale
  select i, i * 48271 % 20000 + 1, i * 69621 % 1009, i * 40692 % 365, (i * 16807 % 100000) / 100.0
  from n;

create index sale_by_customer on sale(customer, day);
create index sale_by_product on sale(product);
create index customer_by_name on customer(name);

-- Joins and groups.
select city, count(*), round(sum(price), 2)
from customer join sale on sale.customer = customer.id
group by city order by 3 desc limit 5;

-- Sorting.
select count(*) from (select id, price from sale order by price, day desc, id limit 500000);
select day, product, round(sum(price) over (partition by product order by day), 2)
from sale where product < 40 order by id desc limit 3;

-- Searching text.
create table word(text text);
with recursive n(i) as (select 1 union all select i + 1 from n, sizes where i < words)
  insert into word select printf('%08X %04X', i * 2654435761 % 4294967296, i * 40503 % 65536) from n;
select count(*) from word where text like '%3A%3%' or text like '%7B%1_' or text glob '*A?3*9*';
select count(distinct substr(text, 3, 4)), max(replace(lower(text), 'a', 'xyz')) from word;

-- Who is reached from customer 1 by way of friends' friends, and a sum along the way.
with recursive path(id, steps, spent) as (
  select 1, 0, 0.0
  union
  select customer.friend, steps + 1, spent + (select total(price) from sale where sale.customer = customer.id)
  from path join customer on customer.id = path.id where steps < 3000)
select count(*), round(max(spent), 2) from path;

-- Numbers out of nothing: the primes below 12000 by trial.
with recursive n(i) as (select 2 union all select i + 1 from n where i < 12000)
select count(*) from n as a
where not exists (select 1 from n as b where b.i * b.i <= a.i and a.i % b.i = 0) and a.i < 700;

update sale set price = price * 1.05 where product in (select product from sale group by product having avg(price) > 500);
delete from sale where customer in (select id from customer where name like '%9%' and city like '%7');
select count(*), round(total(price), 2) from sale;
