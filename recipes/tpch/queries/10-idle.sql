-- Customers with money and without orders.
select substr(c_phone, 1, 2), count(*), sum(c_acctbal) from customer
where c_acctbal > (select avg(c_acctbal) from customer where c_acctbal > 0)
and not exists (select from orders where o_custkey = c_custkey) group by 1 order by 1;
