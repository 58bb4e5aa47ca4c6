-- Customers who sent back the most of a quarter's orders.
select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) lost, c_acctbal, n_name, c_phone
from customer join nation on n_nationkey = c_nationkey join orders on o_custkey = c_custkey
join lineitem on l_orderkey = o_orderkey
where l_returnflag = 'R' and o_orderdate between date '1993-10-01' and date '1993-12-31'
group by c_custkey, n_name order by lost desc limit 20;
