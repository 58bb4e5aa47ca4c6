-- Customers of large orders: the lines of all orders are summed up.
with large as (
  select l_orderkey, sum(l_quantity) as quantity from lineitem group by 1 having sum(l_quantity) > 300
)
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, quantity
from large join orders on o_orderkey = l_orderkey join customer on c_custkey = o_custkey
order by o_totalprice desc, o_orderdate limit 100;
