-- Customers of large orders: a sort that spills.
select c_name, o_orderkey, o_totalprice, sum(l_quantity)
from lineitem join orders on o_orderkey = l_orderkey join customer on c_custkey = o_custkey
group by 1, 2, 3 having sum(l_quantity) > 250 order by 3 desc limit 100;
