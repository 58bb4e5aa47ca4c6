-- Customers of some countries with money and without orders.
with caller as (
  select c_custkey, c_acctbal, left(c_phone, 2) as code from customer
  where left(c_phone, 2) in ('13', '31', '23', '29', '30', '18', '17')
)
select code, count(*), sum(c_acctbal) from caller
where c_acctbal > (select avg(c_acctbal) from caller where c_acctbal > 0)
and not exists (select from orders where o_custkey = c_custkey) group by 1 order by 1;
