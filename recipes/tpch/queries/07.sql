-- What two nations ship to each other, by year.
select seller.n_name, buyer.n_name, extract(year from l_shipdate),
  sum(l_extendedprice * (1 - l_discount))
from lineitem join supplier on s_suppkey = l_suppkey join nation seller on seller.n_nationkey = s_nationkey
join orders on o_orderkey = l_orderkey join customer on c_custkey = o_custkey
join nation buyer on buyer.n_nationkey = c_nationkey
where (seller.n_name, buyer.n_name) in (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE'))
and l_shipdate between date '1995-01-01' and date '1996-12-31'
group by 1, 2, 3 order by 1, 2, 3;
